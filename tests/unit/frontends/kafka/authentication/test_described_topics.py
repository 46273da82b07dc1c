"""Groups are shown to nobody who may not know of one topic they read or are given."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.groups.consumer.messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
)
from headrace.coordination.groups.share.heartbeat import Heartbeat
from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_TOPIC
from headrace.model.errors import ErrorCode
from headrace.security.authorizer import Operation, Resource
from headrace.security.identity import Identity, Principal
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.coordination.share_room import GROUP, share_room
from tests.support.processes.broker import Room, play, room, until
from tests.support.security.authorisation import Rules, call, open_session

ALICE = Identity("10.0.0.1", "PLAINTEXT", Principal("User", "alice"))


class HidesOne(Rules):
    """Nobody may know of one topic."""

    def __init__(self, hidden: str) -> None:
        super().__init__(DESCRIBE_TOPIC)
        self.hidden = hidden

    def allows(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        return resource.name != self.hidden or super().allows(identity, operation, resource)


async def shown(here: Room, key: ApiKey, hidden: str) -> tuple[ErrorCode, int]:
    """The group's error code and how many members are told of."""
    here.broker.authorizer = HidesOne(hidden)
    dispatcher, session = open_session(here, ALICE)
    (group,) = (await call(here, session, key, 1, {"group_ids": [GROUP]})).groups
    await dispatcher.stop()
    return ErrorCode(group.error_code), len(group.members)


SHOWN = (ErrorCode.NONE, 1)
HIDDEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)


def test_a_share_group_that_still_has_a_hidden_topic_is_hidden(tmp_path: Path) -> None:
    async def story() -> None:
        async with share_room(tmp_path) as share:
            await share.here.controller.create_topics([NewTopic("other", 1, 1)])
            share.configure(share_assignment_interval_ms="0")
            await share.join("a")
            group = share.share.describe(GROUP).group
            assert group is not None
            await until(lambda: bool(group.target.get("a")))
            epoch = (await share.beat("a")).epoch
            share.configure(share_assignment_interval_ms="15000")
            answers: list[Any] = []
            share.share.heartbeat(
                Heartbeat(GROUP, "a", epoch, None, ("other",), "c", "/h"), answers.append
            )
            await until(lambda: bool(answers))
            (member,) = group.members.values()
            assert member.subscription.topics == ("other",)
            assert member.standing.assigned, "it has what it read before until the interval is over"
            found = partial(shown, share.here, ApiKey.SHARE_GROUP_DESCRIBE)
            assert await found("t") == HIDDEN
            assert await found("other") == HIDDEN
            assert await found("a third") == SHOWN

    play(story())


@pytest.mark.parametrize("place", ["topics", "assigned", "target"])
def test_a_consumer_group_with_a_hidden_topic_anywhere_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    there = DescribedTopic(b"i" * 16, "t", (0,))
    where: Any = {"topics": (), "assigned": (), "target": ()}
    where[place] = ("t",) if place == "topics" else (there,)
    member = DescribedConsumer("m", None, None, 1, "c", "/h", regex=None, is_classic=False, **where)
    group = DescribedConsumerGroup(
        GROUP, ErrorCode.NONE, None, "Stable", 1, 1, "uniform", (member,)
    )

    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            monkeypatch.setattr(here.coordinators.groups, "describe_consumer", lambda _: group)
            assert await shown(here, ApiKey.CONSUMER_GROUP_DESCRIBE, "t") == HIDDEN
            assert await shown(here, ApiKey.CONSUMER_GROUP_DESCRIBE, "u") == SHOWN

    play(story())

"""A share group that is being deleted when somebody joins it."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.share.keys import ShareKey
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.client.client import FrameClient
from tests.support.coordination.share_room import kept
from tests.support.processes.broker import Room, play, room, until

GROUP, TOPIC = "g", "t"


async def beat(here: Room, epoch: int, **more: Any) -> Any:
    return await FrameClient(here).ask(
        ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=GROUP, member_id="m", member_epoch=epoch, **more
    )


async def join(here: Room) -> None:
    answer = await beat(here, 0, subscribed_topic_names=(TOPIC,))
    assert answer.error_code == 0


def has_state(here: Room) -> bool:
    key = ShareKey(GROUP, here.broker.image.topics[TOPIC].topic_id, 0)
    try:
        return kept(here.coordinators.share.states, key) is not None
    except ApiError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return False


@pytest.mark.parametrize("error", [None, ErrorCode.NOT_COORDINATOR])
def test_who_joins_while_the_state_is_deleted_has_it_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ErrorCode | None
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), group_share_assignment_interval_ms="0") as here:
            await here.controller.create_topics([NewTopic(TOPIC, 1)])
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            await here.controller.ensure_internal_topic(SHARE_STATE_TOPIC)
            share = here.coordinators.share
            await join(here)
            await until(lambda: has_state(here))
            await beat(here, -1)
            delete = share.states.delete
            told: list[ErrorCode] = []
            deleted: list[Any] = []

            def late(keys: Any, done: Any) -> None:
                delete(keys, lambda _: deleted.append(done))

            monkeypatch.setattr(share.states, "delete", late)
            share.delete_group(GROUP, told.append)
            await until(lambda: deleted)
            assert not has_state(here)
            await join(here)
            deleted[0](error)
            assert told == [error or ErrorCode.NON_EMPTY_GROUP]
            await until(lambda: has_state(here))

    play(story())

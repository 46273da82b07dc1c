"""kafka-python's members, as the matrix makes them: faults of its own they must not run into."""

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from kafka.coordinator.consumer import ConsumerCoordinator

from headrace.testing import BrokerThread
from tests.outside.clients.clients.kafka_python import KafkaPython
from tests.outside.clients.scenarios import poll_until

if TYPE_CHECKING:
    from tests.outside.clients.clients.base import Member

MEMBERS = 8
LONGER_THAN_A_POLL = 0.3


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        yield broker


@pytest.mark.filterwarnings("default")
def test_a_member_gets_its_partitions_however_short_its_polls_are(broker: BrokerThread) -> None:
    """A member that learns of its topic only after it has joined gets stuck at such polls."""
    library = KafkaPython(broker.bootstrap)
    for _ in range(MEMBERS):
        _join(library, f"t-{uuid.uuid4()}")


@pytest.mark.filterwarnings("default")
def test_members_polled_in_turn_share_although_joins_end_between_short_polls(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join that ends between two polls is forgotten, and a leader's next one begins all anew."""
    join, poll = ConsumerCoordinator._do_join_and_sync_async, ConsumerCoordinator.poll
    polled: set[Any] = set()

    def watched(self: Any, timeout_ms: int | None = None) -> Any:
        polled.add(self)
        try:
            return poll(self, timeout_ms)
        finally:
            polled.discard(self)

    async def late(self: Any) -> Any:
        assignment = await join(self)
        give_up = time.monotonic() + LONGER_THAN_A_POLL
        while self._is_leader and self in polled and time.monotonic() < give_up:
            await self._net.sleep(0.001)
        return assignment

    monkeypatch.setattr(ConsumerCoordinator, "_do_join_and_sync_async", late)
    monkeypatch.setattr(ConsumerCoordinator, "poll", watched)
    library, topic = KafkaPython(broker.bootstrap), f"t-{uuid.uuid4()}"
    library.create_topic(topic, 4, {})
    first = library.member(topic, topic)
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3}, seconds=20, poll=1)
    second = library.member(topic, topic)
    members: list[Member] = [first, second]
    poll_until(members, lambda: len(first.assigned()) == len(second.assigned()) == 2, seconds=20)
    first.close()
    second.close()


def _join(library: KafkaPython, topic: str) -> None:
    library.create_topic(topic, 4, {})
    member = library.member(topic, topic)
    poll_until([member], lambda: member.assigned() == {0, 1, 2, 3}, seconds=20, poll=0.001)
    member.close()

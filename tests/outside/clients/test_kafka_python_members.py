"""kafka-python's members, as the matrix makes them: faults of its own they must not run into."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.testing import BrokerThread
from tests.outside.clients.clients.kafka_python import KafkaPython
from tests.outside.clients.scenarios import poll_until

MEMBERS = 8


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


def _join(library: KafkaPython, topic: str) -> None:
    library.create_topic(topic, 4, {})
    member = library.member(topic, topic)
    poll_until([member], lambda: member.assigned() == {0, 1, 2, 3}, seconds=20, poll=0.001)
    member.close()

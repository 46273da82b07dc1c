"""A member of a share group on our own client: what is its own, what it settles and outlives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.admin import topics as admin
from headrace.client.admin.share_groups import describe_share_group, share_starts
from headrace.client.calls.fetch import Fetched
from headrace.client.client import Client
from headrace.client.consumer.consumer import Chunk
from headrace.client.consumer.share_consumer import ShareChunk, ShareConsumer
from headrace.client.consumer.share_member import ShareMember
from headrace.client.sync import connect, run
from headrace.client.transport.port import ConnectionLost
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import send
from tests.support.processes.process import free_port

WHERE = TopicPartition("t", 0)
ACCEPT, GAP = 1, 0


def reading(client: Client, group: str = "g") -> ShareConsumer:
    """A member's consumer; its group begins at the start."""
    earliest = {"share.auto.offset.reset": "earliest"}
    run(admin.alter_configs(client, admin.GROUP_RESOURCE, group, set_=earliest))
    return ShareConsumer(client, ShareMember(client, group, ["t"]))


def polled(consumer: ShareConsumer, records_max: int = 500) -> list[ShareChunk]:
    """What the next fetch that brings anything gives; the member is assigned only after a while."""
    for _ in range(100):
        chunks = run(consumer.poll(max_wait_ms=200, records_max=records_max))
        if chunks:
            return chunks
    raise AssertionError("nothing came")


def offsets(chunk: ShareChunk) -> list[int]:
    """The offsets of a chunk's records."""
    return [record.offset for record in chunk.records()]


@pytest.fixture
def client() -> Iterator[Client]:
    with BrokerThread() as broker:
        broker.create_topics("t")
        send(broker.bootstrap, "t", 10)
        with connect(broker.bootstrap, retry_seconds=10) as connected:
            yield connected


def chunk_of(*acquired: tuple[int, int]) -> ShareChunk:
    """A chunk of offsets 10 to 13 and 16 to 17, of which these are the member's."""
    records = b"".join(
        batches.build([batches.new_record(b"", None, 1)] * count, base_offset=base)
        for base, count in ((10, 4), (16, 2))
    )
    fetched = Fetched(*WHERE, 0, -1, -1, -1, (), memoryview(records))
    found = Chunk(WHERE, acquired[0][0], fetched, read_committed=False)
    return ShareChunk(bytes(16), None, [(*part, 1) for part in acquired], found)  # type: ignore[arg-type]


def test_of_the_batches_that_come_only_the_members_own_records_are_handed_out() -> None:
    assert offsets(chunk_of((11, 12), (17, 17))) == [11, 12, 17]
    assert offsets(chunk_of((10, 10), (12, 16))) == [10, 12, 13, 16]
    assert offsets(chunk_of((14, 15))) == []


def test_what_was_handed_out_is_accepted_and_offsets_without_a_record_are_told_as_gaps() -> None:
    chunk = chunk_of((11, 12), (13, 16))
    assert offsets(chunk) == [11, 12, 13, 16]
    assert (chunk.position, chunk.next_position) == (11, 17)
    assert [tuple(ack) for ack in chunk.acknowledgements(17)] == [
        (11, 12, [ACCEPT]), (13, 16, [ACCEPT, GAP, GAP, ACCEPT]),
    ]  # fmt: skip
    assert [tuple(ack) for ack in chunk.acknowledgements(12)] == [(11, 11, [ACCEPT])]
    assert chunk.acknowledgements(11) == []


def test_what_is_accepted_comes_to_nobody_again_and_what_is_given_back_does(
    client: Client,
) -> None:
    first = reading(client)
    (chunk,) = polled(first)
    assert offsets(chunk) == list(range(10))
    assert run(first.acknowledge([(chunk, 4)])) == {}
    assert run(first.close([(chunk, 6)])) == {}
    described = run(describe_share_group(client, "g"))
    assert described is not None
    assert described.members == [], "it has left"
    (chunk,) = polled(reading(client))
    assert offsets(chunk) == [6, 7, 8, 9]
    assert chunk.acquired[0][2] > 1, "delivered once before"


def test_no_more_records_are_taken_than_are_wanted(client: Client) -> None:
    (chunk,) = polled(reading(client), records_max=3)
    assert offsets(chunk) == [0, 1, 2]


def test_records_whose_lock_ran_out_are_not_accepted_and_that_is_said() -> None:
    short = {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "1000",
    }
    with BrokerThread(short) as broker, connect(broker.bootstrap, retry_seconds=10) as client:
        broker.create_topics("t")
        send(broker.bootstrap, "t", 10)
        slow, other = reading(client), reading(client)
        (chunk,) = polled(slow)
        assert offsets(chunk) == list(range(10))
        (again,) = polled(other)
        assert offsets(again) == list(range(10))
        error = run(slow.acknowledge([(chunk, 10)]))[WHERE]
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.INVALID_RECORD_STATE
        assert run(other.acknowledge([(again, 10)])) == {}


def test_a_member_whose_connection_was_lost_says_so_and_reads_on_in_a_new_session(
    client: Client,
) -> None:
    consumer = reading(client)
    (chunk,) = polled(consumer)
    offsets(chunk)
    chunk.session.link.close()
    failed = run(consumer.acknowledge([(chunk, 10)]))
    assert isinstance(failed[WHERE], ConnectionLost)
    (again,) = polled(consumer)
    assert offsets(again) == list(range(10))
    assert run(consumer.acknowledge([(again, 10)])) == {}


def test_a_session_that_the_broker_has_forgotten_is_opened_again(client: Client) -> None:
    consumer = reading(client)
    (chunk,) = polled(consumer, records_max=3)
    offsets(chunk)
    run(consumer.acknowledge([(chunk, 3)]))
    chunk.session.epoch += 7
    (chunk,) = polled(consumer)
    assert offsets(chunk) == list(range(3, 10))
    chunk.session.epoch += 7
    failed = run(consumer.acknowledge([(chunk, 10)]))
    assert set(failed) == {WHERE}
    (chunk,) = polled(consumer)
    assert offsets(chunk) == list(range(3, 10)), "the new session has the partitions again"


def test_a_member_that_was_put_out_joins_again_with_its_next_heartbeat(client: Client) -> None:
    consumer = reading(client)
    (chunk,) = polled(consumer)
    offsets(chunk)
    run(consumer.acknowledge([(chunk, 10)]))
    other = ShareMember(client, "g", ["t"])
    other.member_id, other._epoch = consumer.member.member_id, 1
    run(other.leave())
    run(consumer.poll(max_wait_ms=10))
    assert consumer.member.assignment, "it is not time for a heartbeat yet"
    consumer.member._due = 0.0
    run(consumer.member.heartbeat())
    described = run(describe_share_group(client, "g"))
    assert described is not None
    assert [member.member_id for member in described.members] == [consumer.member.member_id]


def test_a_topic_that_was_deleted_is_waited_on_without_a_loop(client: Client) -> None:
    consumer = reading(client)
    polled(consumer)
    run(admin.delete_topic(client, "t"))
    client.known = None
    client.retry_seconds = 0.2
    began = client.transport.now()
    assert run(consumer.poll(max_wait_ms=300)) == []
    assert client.transport.now() - began >= 0.3


def test_reading_goes_on_through_a_restart_of_the_broker(tmp_path: Path) -> None:
    config = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with BrokerThread(config, directory=str(tmp_path)) as broker:
        broker.create_topics("t")
        send(broker.bootstrap, "t", 3)
        client = connect(broker.bootstrap, retry_seconds=30, patient=True)
        consumer = reading(client)
        (chunk,) = polled(consumer)
        offsets(chunk)
        assert run(consumer.acknowledge([(chunk, 3)])) == {}
    with client, BrokerThread(config, directory=str(tmp_path)) as broker:
        send(broker.bootstrap, "t", 2)
        (chunk,) = polled(consumer)
        assert offsets(chunk) == [3, 4]
        assert run(consumer.close([(chunk, 5)])) == {}
        assert run(share_starts(client, "g"))[WHERE].lag == 0

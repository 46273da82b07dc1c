"""Produce, Fetch, ListOffsets and Metadata, asked over a socket with our own codecs."""

import struct
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from headrace.model.errors import ErrorCode
from headrace.record import batch
from headrace.record.record import new_record
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response, request_head
from headrace.wire.kafka.hot import fetch, list_offsets, metadata, produce
from tests.support.net.links import Link

Fetched = tuple[fetch.FetchResponse, bytes]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as one:
        yield one


class Topics(Link):
    """A connection of one who makes topics, writes to them and reads them."""

    def topic(self, name: str | None = None, version: int = 12) -> metadata.TopicResponse:
        """A topic made by asking for it."""
        if name is None:
            name = f"t-{uuid.uuid4().hex}"
        wanted = metadata.MetadataRequest([metadata.TopicRequest(name)])
        body = self.ask(ApiKey.METADATA, version, metadata.encode_request(version, wanted))
        return metadata.decode_response(version, body).topics[0]

    def produce(
        self, topic: metadata.TopicResponse, records: bytes, acks: int = -1, version: int = 11
    ) -> produce.PartitionResponse:
        data = [produce.PartitionData(0, records)]
        request = produce.ProduceRequest(
            None, acks, 10_000, [produce.TopicData(topic.name or "", topic.topic_id, data)]
        )
        body = self.ask(ApiKey.PRODUCE, version, produce.encode_request(version, request))
        return produce.decode_response(version, body).topics[0].partitions[0]

    def fetch(self, request: fetch.FetchRequest, version: int = 12) -> fetch.FetchResponse:
        body = self.ask(ApiKey.FETCH, version, fetch.encode_request(version, request))
        return fetch.decode_response(version, body)


@pytest.fixture
def link(broker: BrokerThread) -> Iterator[Topics]:
    one = Topics(broker)
    yield one
    one.socket.close()


def records(*values: bytes) -> bytes:
    now = int(time.time() * 1000)
    return batch.build([new_record(value, timestamp=now + i) for i, value in enumerate(values)])


def fetch_of(
    topic: metadata.TopicResponse,
    offset: int,
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    max_bytes: int = 1 << 20,
    isolation: int = 0,
    partition: int = 0,
) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(partition, epoch, offset, -1, -1, max_bytes)
    wanted = [fetch.FetchTopic(topic.name or "", topic.topic_id, [asked])]
    return fetch.FetchRequest(
        wait_ms, min_bytes, max_bytes, isolation, session[0], session[1], wanted
    )


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_produce_version_appends_and_tells_the_offset(
    link: Topics, version: int, acks: int
) -> None:
    topic = link.topic()
    assert link.produce(topic, records(b"a", b"b"), acks, version)[1:3] == (0, 0)
    assert link.produce(topic, records(b"c"), acks, version)[1:3] == (0, 2)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_fetch_version_gives_the_bytes_that_were_written(link: Topics, version: int) -> None:
    topic = link.topic()
    written = records(b"one", b"two")
    assert link.produce(topic, written).error_code == 0
    (found,) = link.fetch(fetch_of(topic, 1), version).topics[0].partitions
    assert found.error_code == 0
    assert found.high_watermark == 2
    got = found.records
    assert isinstance(got, memoryview)
    assert bytes(got[16:]) == written[16:], "a whole batch, though the offset lies inside"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:-1], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:30], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b + b, ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b"", ErrorCode.INVALID_RECORD),
    ],
)
@pytest.mark.parametrize("version", [8, 11])
def test_a_broken_batch_is_refused_and_nothing_is_written(
    link: Topics, spoil: "object", code: ErrorCode, version: int
) -> None:
    topic = link.topic()
    assert callable(spoil)
    answer = link.produce(topic, spoil(records(b"good")), -1, version)
    # Two batches in one: Kafka says INVALID_RECORD, of the first alone it may say CORRUPT_MESSAGE.
    assert answer.error_code in {code, ErrorCode.INVALID_RECORD}
    assert link.produce(topic, records(b"next")).base_offset == 0


def test_wrong_acks_and_unknown_topics_are_refused_by_their_codes(link: Topics) -> None:
    topic = link.topic()
    assert link.produce(topic, records(b"x"), 2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    stranger = topic._replace(name="nobody-made-this", topic_id=bytes(15) + b"\x01")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert link.produce(stranger, records(b"x")).error_code == unknown
    assert (
        link.produce(stranger, records(b"x"), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    )
    internal = topic._replace(name="__consumer_offsets")
    link.topic("__consumer_offsets")
    refused = link.produce(internal, records(b"x"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_failure_with_acks_0_closes_the_connection_and_success_says_nothing(
    broker: BrokerThread, link: Topics
) -> None:
    topic = link.topic()
    data = [produce.PartitionData(0, records(b"quiet"))]
    good = produce.ProduceRequest(None, 0, 1000, [produce.TopicData(topic.name or "", b"", data)])
    link.send(ApiKey.PRODUCE, 9, produce.encode_request(9, good))
    assert link.produce(topic, records(b"loud")).base_offset == 1
    bad = produce.ProduceRequest(None, 0, 1000, [produce.TopicData("nobody-made-this", b"", data)])
    link.send(ApiKey.PRODUCE, 9, produce.encode_request(9, bad))
    with pytest.raises(ConnectionError):
        link.receive(ApiKey.PRODUCE, 9)


def test_pipelined_requests_of_all_kinds_are_answered_in_order(link: Topics) -> None:
    first, second = link.topic(), link.topic()
    sent = []
    for number in range(60):
        topic = (first, second)[number % 3 == 0]
        acks = (-1, 1, -1)[number % 3]
        version = (9, 11, 8)[number % 3]
        data = [produce.PartitionData(0, records(b"%d" % number))]
        request = produce.ProduceRequest(
            None, acks, 10_000, [produce.TopicData(topic.name or "", topic.topic_id, data)]
        )
        body = produce.encode_request(version, request)
        head = request_head(ApiKey.PRODUCE, version, number, "test", len(body))
        sent.append((head + body, version, topic.name))
    link.socket.sendall(b"".join(frame for frame, _, _ in sent))
    offsets: dict[str | None, int] = {}
    for number, (_, version, name) in enumerate(sent):
        (size,) = struct.unpack(">i", link.raw(4))
        frame = memoryview(link.raw(size))
        correlation_id, at = parse_response(frame, ApiKey.PRODUCE, version)
        assert correlation_id == number
        (topic_answer,) = produce.decode_response(version, frame[at:]).topics
        assert topic_answer.name == name
        assert topic_answer.partitions[0].base_offset == offsets.get(name, 0)
        offsets[name] = offsets.get(name, 0) + 1


def test_a_fetch_at_the_end_waits_for_records_and_no_longer_than_asked(
    broker: BrokerThread, link: Topics
) -> None:
    topic = link.topic()
    started = time.monotonic()
    (empty,) = link.fetch(fetch_of(topic, 0, wait_ms=300)).topics[0].partitions
    assert not empty.records
    assert 0.25 < time.monotonic() - started < 5
    other = Topics(broker)
    later = threading.Timer(0.3, lambda: other.produce(topic, records(b"now")))
    later.start()
    started = time.monotonic()
    (found,) = link.fetch(fetch_of(topic, 0, wait_ms=20_000)).topics[0].partitions
    assert found.records
    assert time.monotonic() - started < 10
    later.join()
    other.socket.close()


def test_min_bytes_gathers_several_batches(broker: BrokerThread, link: Topics) -> None:
    topic = link.topic()
    other = Topics(broker)

    def write() -> None:
        for _ in range(5):
            other.produce(topic, records(b"x" * 400))
            time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    answer = link.fetch(fetch_of(topic, 0, wait_ms=20_000, min_bytes=1200))
    writer.join()
    other.socket.close()
    got = answer.topics[0].partitions[0].records
    assert got is not None
    assert len(got) >= 1200


def test_a_batch_larger_than_every_limit_is_given_all_the_same(link: Topics) -> None:
    topic = link.topic()
    assert link.produce(topic, records(b"x" * 5000)).error_code == 0
    (found,) = link.fetch(fetch_of(topic, 0, max_bytes=10)).topics[0].partitions
    assert found.records is not None
    assert len(found.records) > 5000


def test_offsets_outside_the_log_and_epochs_of_another_leader_are_told(link: Topics) -> None:
    topic = link.topic()
    link.produce(topic, records(b"x"))

    def code(request: fetch.FetchRequest) -> int:
        return link.fetch(request).topics[0].partitions[0].error_code

    assert code(fetch_of(topic, 5, wait_ms=5000)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert code(fetch_of(topic, 0, epoch=99)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(fetch_of(topic, 0, partition=7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    follower = fetch_of(topic, 0)._replace(replica_id=3)
    assert code(follower) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_incremental_session_tells_only_what_is_new(link: Topics) -> None:
    topic = link.topic()
    link.produce(topic, records(b"first"))
    full = link.fetch(fetch_of(topic, 0, session=(0, 0)))
    assert full.session_id != 0
    assert len(full.topics) == 1
    asked = fetch_of(topic, 1, session=(full.session_id, 1))
    link.fetch(asked)
    quiet = fetch.FetchRequest(0, 1, 1 << 20, 0, full.session_id, 2)
    assert link.fetch(quiet).topics == []
    link.produce(topic, records(b"second"))
    (news,) = link.fetch(quiet._replace(session_epoch=3)).topics
    assert news.partitions[0].records
    wrong = link.fetch(quiet._replace(session_epoch=9))
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = link.fetch(quiet._replace(session_id=full.session_id ^ 1))
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_list_offsets_knows_the_ends_times_and_the_newest(link: Topics) -> None:
    topic = link.topic()
    now = int(time.time() * 1000)
    for at in range(5):
        one = batch.build([new_record(b"x", timestamp=now + 1000 * at)])
        assert link.produce(topic, one).error_code == 0

    def ask(timestamp: int, version: int = 11) -> list_offsets.PartitionResponse:
        wanted = [list_offsets.PartitionRequest(0, timestamp)]
        request = list_offsets.ListOffsetsRequest(
            -1, 0, [list_offsets.TopicRequest(topic.name or "", wanted)], 1000
        )
        body = link.ask(ApiKey.LIST_OFFSETS, version, list_offsets.encode_request(version, request))
        return list_offsets.decode_response(version, body).topics[0].partitions[0]

    assert ask(-1).offset == 5
    assert ask(-2).offset == 0
    assert (ask(-3).offset, ask(-3).timestamp) == (4, now + 4000)
    assert ask(-4).offset == 0
    for none_here, since in ((-5, 9), (-6, 11)):
        assert ask(none_here) == list_offsets.PartitionResponse(0, 0, -1, -1, -1)
        assert ask(none_here, since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert ask(none_here, since).error_code == 0
    assert ask(-4, 7).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(-4, 8).offset == 0
    assert ask(-3, 7).offset == 4
    assert ask(-7).error_code == ErrorCode.INVALID_REQUEST
    assert (ask(now + 1500).offset, ask(now + 1500).timestamp) == (2, now + 2000)
    assert ask(now + 100_000).offset == -1
    assert ask(-3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION
    for version in range(1, 12):
        assert ask(-1, version).offset == 5


@pytest.mark.parametrize("version", range(14))
def test_every_metadata_version_names_the_broker_and_the_topic(
    broker: BrokerThread, link: Topics, version: int
) -> None:
    made = link.topic()
    wanted = metadata.MetadataRequest([metadata.TopicRequest(made.name)])
    body = link.ask(ApiKey.METADATA, version, metadata.encode_request(version, wanted))
    answer = metadata.decode_response(version, body)
    assert [(one.host, one.port) for one in answer.brokers] == [("127.0.0.1", broker.port)]
    assert answer.topics[0].name == made.name
    assert answer.topics[0].error_code == 0


def test_metadata_refuses_names_that_are_none_and_creates_only_where_allowed(link: Topics) -> None:
    assert link.topic("../../etc").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert link.topic("").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    wanted = metadata.MetadataRequest([metadata.TopicRequest("not-wanted")], False)
    body = link.ask(ApiKey.METADATA, 12, metadata.encode_request(12, wanted))
    answer = metadata.decode_response(12, body)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = metadata.MetadataRequest([metadata.TopicRequest(None, b"\x07" * 16)])
    body = link.ask(ApiKey.METADATA, 12, metadata.encode_request(12, by_id))
    assert metadata.decode_response(12, body).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_by_id_takes_no_heed_of_the_name_which_javas_client_leaves_empty(
    link: Topics,
) -> None:
    made = link.topic()
    for topic_id, code in ((made.topic_id, 0), (b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID)):
        wanted = metadata.MetadataRequest([metadata.TopicRequest("", topic_id)])
        for version in (12, 13):
            body = link.ask(ApiKey.METADATA, version, metadata.encode_request(version, wanted))
            answer = metadata.decode_response(version, body).topics[0]
            assert (answer.error_code, answer.topic_id) == (code, topic_id)
            assert answer.name == (made.name if code == 0 else None)


def test_acks_all_is_not_answered_before_the_flush(broker: BrokerThread, link: Topics) -> None:
    topic = link.topic()
    link.produce(topic, records(b"before"))
    held: list[object] = []
    disk = broker.server.disk
    flush = disk.flush
    broker.call(lambda server: setattr(server.disk, "flush", lambda *call: held.append(call)))
    try:
        data = [produce.PartitionData(0, records(b"after"))]
        topics = [produce.TopicData(topic.name or "", topic.topic_id, data)]
        request = produce.ProduceRequest(None, -1, 300, topics)
        body = link.ask(ApiKey.PRODUCE, 11, produce.encode_request(11, request))
        answer = produce.decode_response(11, body).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        (found,) = link.fetch(fetch_of(topic, 0)).topics[0].partitions
        assert found.high_watermark == 1, "and it is not visible either"
        assert held
    finally:

        def go_on(server: object) -> None:
            del server.disk.flush  # type: ignore[attr-defined]
            for call in held:
                flush(*call)  # type: ignore[misc]

        broker.call(go_on)
    (found,) = link.fetch(fetch_of(topic, 1, wait_ms=5000)).topics[0].partitions
    assert found.high_watermark == 2

"""What exchanges store in a topic: batches, who is told, and what a topic does not take."""

from dataclasses import replace
from itertools import pairwise

import pytest

from headrace.broker.partition import Partition
from headrace.log.log import ReadResult
from headrace.model.errors import ApiError, ErrorCode, HeadraceError, Malformed
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.queue_stores.record_messages import messages_in
from headrace.record.batch import Record, iterate, records
from headrace.vhosts import topic_records, topic_writer
from headrace.vhosts.topic_records import KEPT_BYTES_MAX, TopicRecords
from headrace.vhosts.topic_writer import TopicWriter
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import ByteArray, Decimal, Timestamp
from headrace.wire.amqp.header_texts import header_texts, value_bytes
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.log.log import World
from tests.support.queues.log import CONFIG


def message(body: bytes = b"body", key: str = "k", **properties: object) -> Message:
    return Message("e", key, make_header(len(body), Properties(**properties)), body)  # type: ignore[arg-type]


class Topic:
    """A topic of some partitions that this broker leads, and what stores messages in it."""

    def __init__(self, count: int = 2, **config: object) -> None:
        self.world = World(config=replace(CONFIG, **config))  # type: ignore[arg-type]
        self.partitions = [self._lead(at) for at in range(count)]
        self.to_write: list[TopicWriter] = []
        self.told: list[bool] = []
        self.writer = TopicWriter(
            "orders", self, self.world.disk, self.world.clock, self.to_write.append
        )

    def _lead(self, at: int) -> Partition:
        log = self.world.log(TopicPartition("orders", at))
        partition = Partition(log, flusher=self.world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        return partition

    def partition_count(self, topic: str) -> int:
        return len(self.partitions)

    def partition(self, topic: str, index: int) -> Partition:
        return self.partitions[index]

    def append(self, *messages: Message, key_header: str | None = None) -> None:
        for each in messages:
            self.writer.append(each, key_header)
        self.writer.when_stored(self.told.append)

    def stored(self, index: int) -> list[list[Record]]:
        """The records of a partition, batch by batch."""
        partition = self.partitions[index]
        data = partition.read(Offset(0), 1 << 20)
        assert isinstance(data, ReadResult)
        found, batches = bytes(data.data), []
        at = 0
        while at < len(found):
            size = 12 + int.from_bytes(found[at + 8 : at + 12])
            batches.append(list(records(found[at : at + size])))
            at += size
        return batches


def test_a_turn_is_one_batch_for_each_partition_and_the_confirm_comes_behind_the_flush() -> None:
    topic = Topic()
    topic.append(message(key="a"), message(key="b"), message(key="a"))
    assert topic.to_write == [topic.writer], "once for the pass"
    topic.writer.write()
    assert topic.told == [], "nothing is flushed yet"
    topic.world.settle()
    assert topic.told == [True]
    sizes = sorted(len(batch) for index in (0, 1) for batch in topic.stored(index))
    assert sizes in ([3], [1, 2])
    assert not topic.writer.is_busy
    topic.writer.when_stored(topic.told.append)
    assert topic.told == [True, True]


def test_what_is_published_outside_of_a_pass_is_written_when_the_turn_is_over() -> None:
    topic = Topic(1)
    topic.append(message())
    topic.world.settle()
    assert (topic.told, len(topic.stored(0))) == ([True], 1)


def test_more_than_a_batch_holds_becomes_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_writer, "BATCH_BYTES_MAX", 1000)
    topic = Topic(1)
    topic.append(*(message(bytes(400)) for _ in range(5)))
    topic.world.settle()
    assert [len(batch) for batch in topic.stored(0)] == [1, 1, 1, 1, 1]
    assert topic.told == [True]


def test_a_batch_takes_as_many_records_as_fit_and_the_writer_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = TopicRecords().record(message(), None).size
    monkeypatch.setattr(topic_writer, "BATCH_BYTES_MAX", 3 * size)
    topic = Topic(1)
    topic.append(*(message() for _ in range(7)))
    assert topic.to_write == [topic.writer]
    topic.world.settle()
    batches = topic.stored(0)
    assert [len(batch) for batch in batches] == [3, 3, 1]
    traffic = topic.partitions[0].traffic
    data = topic.partitions[0].read(Offset(0), 1 << 20)
    assert isinstance(data, ReadResult)
    assert (traffic.records_in, traffic.bytes_in) == (7, len(data.data))


def test_what_a_turn_publishes_becomes_batches_of_a_few_mebibytes_at_most() -> None:
    topic = Topic(1, segment_bytes=1 << 26, max_message_bytes=1 << 26)
    topic.append(*(message(bytes(1 << 19)) for _ in range(12)))
    topic.world.settle()
    found = topic.partitions[0].read(Offset(0), 1 << 24)
    assert isinstance(found, ReadResult)
    starts = [at for at, _ in iterate(found.data)]
    sizes = [end - at for at, end in pairwise([*starts, len(found.data)])]
    assert topic.told == [True]
    assert sum(sizes) > 6 << 20
    assert max(sizes) <= 2 << 20


def test_one_batch_that_is_lost_is_told_though_a_later_one_is_kept() -> None:
    topic = Topic()
    for index in (0, 1):
        topic.writer.append(message(key=_key_for(topic, index)), None)
    topic.writer.when_stored(topic.told.append)
    topic.partitions[0].role.resign()
    topic.world.settle()
    assert topic.told == [False]


def test_a_batch_that_is_not_taken_is_told_to_those_who_wait_and_to_nobody_else() -> None:
    topic = Topic()
    first, second = (_key_for(topic, index) for index in (0, 1))
    topic.append(message(key=first))
    topic.writer.write()
    topic.world.settle()
    topic.writer.append(message(key=second), None)
    topic.partitions[1].role.resign()
    topic.writer.when_stored(topic.told.append)
    topic.writer.write()
    topic.world.settle()
    assert topic.told == [True, False]
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        topic.writer.append(message(key=second), None)
    topic.append(message(key=first))
    topic.world.settle()
    assert topic.told == [True, False, True]


def test_what_is_cut_off_before_it_is_committed_is_not_confirmed() -> None:
    topic = Topic(1)
    topic.append(message())
    topic.writer.write()
    topic.partitions[0].role.resign()
    topic.world.settle()
    assert topic.told == [False]


def test_a_topic_that_is_gone_takes_nothing() -> None:
    topic = Topic(0)
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        topic.writer.check(message(), None)
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        topic.writer.append(message(), None)


def test_the_largest_record_is_taken_and_one_byte_more_is_not() -> None:
    topic = Topic(1)
    limit = topic_writer._limit(topic.partitions[0].log.config)
    over = TopicRecords().record(message(b""), None).size
    topic.writer.check(message(bytes(limit - over)), None)
    topic.append(message(bytes(limit - over)))
    topic.world.settle()
    assert topic.told == [True], "the log takes it, too"
    with pytest.raises(ApiError) as refused:
        topic.writer.check(message(bytes(limit - over + 1)), None)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_takes_nothing_without_a_key() -> None:
    topic = Topic(1, cleanup_policy=("compact",))
    topic.writer.check(message(key="k"), None)
    with pytest.raises(ApiError, match="INVALID_RECORD"):
        topic.writer.check(message(key=""), None)
    with pytest.raises(ApiError, match="INVALID_RECORD"):
        topic.writer.check(message(key="k"), "missing")


def test_keyless_messages_pass_over_partitions_that_take_nothing() -> None:
    topic = Topic(3)
    topic.partitions[1].role.resign()
    for _ in range(4):
        topic.append(message(key=""))
        topic.world.settle()
    assert topic.told == [True] * 4
    assert [len(topic.stored(index)) for index in (0, 2)] == [2, 2]
    for partition in topic.partitions:
        partition.role.resign()
    with pytest.raises(ApiError):
        topic.writer.append(message(key=""), None)


def test_keyless_messages_go_round_the_partitions_that_take_them() -> None:
    topic = Topic(3)
    topic.partitions[1].role.resign()
    for _ in range(3):
        topic.append(message(key=""))
        topic.world.settle()
    assert [len(topic.stored(index)) for index in (0, 2)] == [2, 1]


def test_keyless_messages_pass_over_partitions_that_others_lead() -> None:
    class Led(Topic):
        led = frozenset((1,))

        def partition(self, topic: str, index: int) -> Partition:
            if index not in self.led:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return super().partition(topic, index)

    topic = Led()
    topic.append(message(key=""))
    topic.world.settle()
    assert topic.told == [True]
    topic.led = frozenset()
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        topic.writer.append(message(key=""), None)


def test_what_could_not_be_compressed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytearray:
        raise Malformed("torn")

    monkeypatch.setattr(topic_writer, "recompress", fail)
    topic = Topic(1, compression_type="gzip")
    topic.append(message())
    topic.world.settle()
    assert (topic.told, topic.writer.is_busy) == ([False], False)


def test_as_much_as_may_wait_to_be_compressed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(1, compression_type="gzip")
    topic.append(message())
    topic.writer.write()
    monkeypatch.setattr(topic_writer, "COMPRESSING_BYTES_MAX", topic.writer._compressing_bytes)
    topic.append(message())
    topic.world.settle()
    assert topic.told == [True, True]


def test_batches_that_a_thread_compresses_stay_in_order_and_in_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic(1, compression_type="gzip")
    for body in (b"a", b"b", b"c"):
        topic.append(message(body))
        topic.writer.write()
    monkeypatch.setattr(topic_writer, "COMPRESSING_BYTES_MAX", 10)
    with pytest.raises(HeadraceError, match="wait for compression"):
        topic.writer.append(message(), None)
    topic.world.settle()
    assert topic.told == [True, True, True]
    assert [batch[0].value for batch in topic.stored(0)] == [b"a", b"b", b"c"]
    topic.append(message(b"d"))
    topic.world.settle()
    assert [batch[0].value for batch in topic.stored(0)] == [b"a", b"b", b"c", b"d"]


def test_a_stored_message_is_the_message_again() -> None:
    topic = Topic(1)
    sent = [
        message(b"x", headers={"n": 1}, content_type="text/plain", delivery_mode=2),
        message(b"y", "other", headers={"n": 1}),
        message(b"", "\udcff"),
    ]
    topic.append(*sent)
    topic.append(*sent, key_header="n")
    topic.world.settle()
    data = bytes(topic.partitions[0].read(Offset(0), 1 << 20).data)  # type: ignore[union-attr]
    found = messages_in(data, 0).messages
    assert [_parts(each) for each in found] == [_parts(each) for each in sent * 2]
    keys = [record.key for batch in topic.stored(0) for record in batch]
    assert keys == [b"k", b"other", b"\xff", b"1", b"1", None]


def test_headers_of_ours_are_not_taken_from_the_message() -> None:
    topic = Topic(1)
    topic.append(message(headers={"amqp.exchange": "false", "mine": "true"}))
    topic.world.settle()
    ((record,),) = topic.stored(0)
    names = [name for name, _ in record.headers]
    assert names == ["mine", "amqp.header", "amqp.exchange"]


def test_headers_that_cannot_be_read_are_refused() -> None:
    header = bytearray(make_header(4, Properties(headers={"name": "value"})))
    header[-6] = 200  # the value's length
    topic = Topic(1)
    with pytest.raises(Malformed):
        topic.writer.check(Message("e", "k", bytes(header), b"body"), None)


def test_headers_shared_with_a_neighbour_are_those_of_no_other_message() -> None:
    topic = Topic(1)
    header = message(headers={"n": ""}).header
    sent = [
        Message(exchange, key, header, b"body")
        for exchange, key in (("e", "k"), ("f", "k"), ("f", "l"), ("e", "k"))
    ]
    topic.append(*sent, key_header="n")
    topic.world.settle()
    data = bytes(topic.partitions[0].read(Offset(0), 1 << 20).data)  # type: ignore[union-attr]
    assert [_parts(each) for each in messages_in(data, 0).messages] == [_parts(x) for x in sent]
    (stored,) = topic.stored(0)
    assert {record.key for record in stored} == {None}, "an empty value is no key"


def test_only_small_headers_are_kept_unfolded() -> None:
    kept = topic_records._kept_user_headers
    kept.cache_clear()
    for size, count in ((KEPT_BYTES_MAX + 1, 0), (1, 1)):
        TopicRecords().record(message(headers={"n": "x" * size}), None)
        assert kept.cache_info().currsize == count


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ü", "ü".encode()),
        (b"\xff\x00", b"\xff\x00"),
        (ByteArray(b"x"), b"x"),
        ("\udcff", b"\xff"),
        (True, b"true"),
        (False, b"false"),
        (-5, b"-5"),
        (Timestamp(1700000000), b"1700000000"),
        (1.5, b"1.5"),
        (Decimal(2, 314), b"3.14"),
        (Decimal(0, 5), b"5"),
        (None, None),
        ({"a": [1, None, b"\xff", Decimal(1, 5)]}, '{"a":[1,null,"\ufffd","0.5"]}'.encode()),
        ([], b"[]"),
    ],
)
def test_values_of_headers_as_bytes(value: object, expected: bytes | None) -> None:
    assert value_bytes(value) == expected  # type: ignore[arg-type]


def test_headers_as_texts_are_utf8_throughout() -> None:
    assert header_texts({"a\udcff": "b\udcfe", "n": 1, "none": None}) == {
        "a\ufffd": "b\ufffd",
        "n": "1",
        "none": None,
    }


def _parts(each: Message) -> tuple[str, str, bytes, bytes]:
    return each.exchange, each.routing_key, each.header, each.body


def _key_for(topic: Topic, index: int) -> str:
    for number in range(100):
        partition = topic.writer._record(message(key=str(number)), None)[1]
        if partition is topic.partitions[index]:
            return str(number)
    raise AssertionError

"""A stream on its log: where readers begin, what they are given, and for how long it is there."""

from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.queue_settings import StreamOffset, StreamStart
from headrace.queue_stores.stream import stream_reading
from headrace.queues.engine import stream_readers
from headrace.queues.refusals import Refused
from headrace.record.batch import Codec
from headrace.wire.amqp.properties import Properties
from tests.support.amqp.deliveries import ChannelKit
from tests.support.log.log import NOW_MS, batch_of
from tests.support.queues.log import message
from tests.support.queues.streams import FIRST, LAST, NEXT, Reader, Stream, offset
from tests.support.queues.virtual_hosts import refusal

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable

TEN = [str(number) for number in range(10)]


# Where readers begin


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (FIRST, [*range(10)]),
        (LAST, [8, 9]),
        (NEXT, []),
        (offset(0), [*range(10)]),
        (offset(7), [7, 8, 9]),
        (offset(10), []),
    ],
)
def test_a_reader_begins_where_it_wants(start: StreamOffset, found: list[int]) -> None:
    here = Stream()
    for at in range(0, 10, 2):
        here.published(*TEN[at : at + 2])
    reader = here.read(start)
    assert (reader.offsets, reader.bodies) == (found, [TEN[at] for at in found])


def test_a_reader_of_an_offset_to_come_gets_nothing_before_it() -> None:
    here = Stream()
    here.published("0", "1")
    reader = here.read(offset(3))
    here.published("2", "3")
    here.published("4")
    assert reader.bodies == ["3", "4"]


def test_next_is_what_is_published_after_the_consumer_came_committed_or_not() -> None:
    here = Stream()
    here.publish("written, not committed")
    reader = here.consume(NEXT)
    here.published("after")
    assert reader.bodies == ["after"]


@pytest.mark.parametrize("start", [FIRST, LAST, NEXT, offset(0), StreamOffset(StreamStart.AGE, 1)])
@pytest.mark.parametrize("has_log", [False, True])
def test_readers_of_an_empty_stream_get_what_comes(start: StreamOffset, has_log: bool) -> None:
    here = Stream(make_log=has_log)
    reader = here.read(start)
    here.publish("a", "b")
    if not has_log:
        here.store.have_log(here.make_partition())
    here.run()
    assert reader.bodies == ["a", "b"]


def test_a_stream_has_no_files_before_its_first_message() -> None:
    here = Stream(make_log=False)
    here.read(FIRST)
    assert here.asked == []
    here.publish("a")
    assert here.asked == [here.store]
    reader = here.read(NEXT)
    here.publish("b")
    here.store.have_log(here.make_partition())
    here.run()
    assert reader.bodies == ["b"]
    assert here.confirmed == [True, True]


def test_readers_skip_no_message_after_a_refused_log_of_their_stream() -> None:
    """The refused messages have no offsets: the first one stored has 0."""
    here = Stream(make_log=False)
    here.publish("lost")
    readers = [here.read(start) for start in (NEXT, offset(1), FIRST)]
    here.store.have_log(HeadraceError("no room"))
    assert (here.store.ready, here.queue.ready) == (0, 0)
    with pytest.raises(HeadraceError, match="no room"):
        here.publish("refused")
    here.store.have_log(here.make_partition())
    here.run()
    here.published("a", "b")
    assert [reader.bodies for reader in readers] == [["a", "b"], ["b"], ["a", "b"]]
    assert here.confirmed == [False, True]


def test_reader_of_next_misses_no_message_behind_one_that_the_log_refused() -> None:
    here = Stream(make_log=False)
    here.publish("a", "b" * 5000)
    reader = here.read(NEXT)
    here.publish("c" * 5000, "d")
    later = here.read(NEXT)
    here.publish("e")
    here.store.have_log(here.make_partition())
    here.run()
    assert (reader.bodies, later.bodies) == (["d", "e"], ["e"])
    assert here.confirmed == [False, False, True]
    assert here.queue.ready == 3


@pytest.mark.parametrize(("seconds", "first"), [(-1, 0), (0, 0), (5, 1), (15, 2), (20, 2), (25, 3)])
def test_a_time_is_looked_up_in_the_log(seconds: int, first: int) -> None:
    here = Stream()
    for body in ("0", "10", "20"):
        here.published(body)
        here.world.clock.advance(10)
    assert here.read(StreamOffset(StreamStart.TIMESTAMP, NOW_MS + seconds * 1000)).offsets == [
        *range(first, 3)
    ]
    by_age = StreamOffset(StreamStart.AGE, (30 - seconds) * 1000)
    assert here.read(by_age).offsets == [*range(first, 3)]


def test_last_is_the_last_batch_that_has_messages() -> None:
    here = Stream()
    here.published("a", "b")
    here.produce("aborted", producer=(7, 0, 0))
    here.abort(7)
    assert here.read(LAST).bodies == ["a", "b"]


# What they are given


def test_many_readers_are_independent_and_nothing_is_settled() -> None:
    here = Stream()
    here.published(*TEN)
    whole, slow = here.read(FIRST), here.read(FIRST, prefetch=3)
    late = here.read(offset(8))
    assert (len(whole.given), slow.bodies, late.bodies) == (10, TEN[:3], TEN[8:])
    whole.acknowledge()
    assert len(whole.given) == 10
    slow.acknowledge()
    slow.acknowledge()
    assert slow.bodies == TEN[:9]
    assert here.read(FIRST).bodies == TEN
    assert here.queue.ready == 10


def test_what_is_rejected_or_given_back_makes_room_and_is_not_given_again() -> None:
    here = Stream()
    here.published(*TEN)
    reader = here.read(FIRST, prefetch=2)
    reader.channel.nack(1, requeue=True)
    here.run()
    reader.channel.nack(2, requeue=False)
    here.run()
    assert reader.bodies == TEN[:4]
    reader.channel.recover()
    here.run()
    assert reader.bodies == TEN[:6]
    assert not any(redelivered for _, _, _, redelivered, _ in reader.given)
    assert here.queue.unacked == 2


def test_one_acknowledgement_is_one_message_more() -> None:
    here = Stream()
    here.published(*TEN)
    reader = here.read(FIRST, prefetch=4)
    for tag in range(1, 7):
        assert len(reader.given) == 3 + tag
        reader.channel.ack(tag)
        here.run()


def test_a_channel_that_closes_gives_nothing_back() -> None:
    here = Stream()
    here.published(*TEN)
    reader = here.read(FIRST, prefetch=4)
    reader.leave()
    reader.channel.close()
    assert here.queue.unacked == 0
    assert here.read(FIRST).bodies == TEN


def test_nothing_above_the_high_watermark_is_given() -> None:
    here = Stream()
    reader = here.read(FIRST)
    here.publish("a")
    assert here.deliver() == 0
    here.run()
    assert reader.bodies == ["a"]


def test_what_is_written_and_not_committed_is_not_passed_over() -> None:
    here = Stream()
    here.published("a")
    reader = here.read(FIRST)
    for body in ("b", "c"):
        here.publish(body)
        here.deliver()
    here.run()
    assert reader.bodies == ["a", "b", "c"]


def test_nobody_has_a_stream_for_himself() -> None:
    here = Stream()
    here.published("a")
    readers = [here.read(FIRST, exclusive=True) for _ in range(2)]
    assert [reader.bodies for reader in readers] == [["a"]] * 2


def test_a_reader_that_is_cancelled_gets_nothing_more_and_its_place_is_forgotten() -> None:
    here = Stream()
    here.published("a")
    reader = here.read(FIRST)
    reader.leave()
    here.published("b")
    assert reader.bodies == ["a"]
    reader.leave()
    assert here.log._cache.bytes == 0


def test_records_of_kafkas_producers_are_messages_but_not_those_of_what_was_aborted() -> None:
    here = Stream()
    reader = here.read(FIRST)
    here.published("own")
    here.produce("plain", "two")
    batch = batch_of(b"packed", codec=Codec.GZIP)
    here.partition.append_internal(batch, now_ms=NOW_MS)
    here.produce("undecided", producer=(7, 0, 0))
    here.published("behind")
    assert reader.bodies == ["own", "plain", "two", "packed"]
    here.abort(7)
    assert reader.bodies == ["own", "plain", "two", "packed", "behind"]
    assert reader.offsets == [0, 1, 2, 3, 5]
    assert here.read(FIRST).bodies == reader.bodies


def test_a_filter_chooses_by_the_messages_value() -> None:
    here = Stream()
    for body, value in (("a", "red"), ("b", "blue"), ("c", None), ("d", 5), ("e", "red")):
        headers: FieldTable = {} if value is None else {"x-stream-filter-value": value}
        here.publish(body, properties=Properties(headers=headers))
    here.run()
    for wanted, found in (
        ({"red"}, "ae"),
        ({"red", "blue"}, "abe"),
        ({"none"}, ""),
        ({""}, "cd"),
        ({"red", ""}, "acde"),
    ):
        assert "".join(here.read(FIRST, wanted=frozenset(wanted)).bodies) == found


def test_a_filter_that_matches_far_on_is_reached_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.queue_stores.log.message_reader.READ_BYTES", 500)
    here = Stream()
    for number in range(100):
        here.publish(f"{number:0100}")
    here.publish("wanted", properties=Properties(headers={"x-stream-filter-value": "x"}))
    here.run()
    assert here.read(FIRST, wanted=frozenset({"x"})).bodies == ["wanted"]


# Turns, memory


def test_readers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "SHARE_MESSAGES_MAX", 2)
    monkeypatch.setattr(stream_readers, "BATCH_MESSAGES_MAX", 8)
    here = Stream()
    here.published(*TEN)
    readers = [here.consume(FIRST) for _ in range(3)]
    here.deliver()
    assert [len(reader.given) for reader in readers] == [4, 2, 2]
    assert here.queue.more
    here.deliver()
    assert [len(reader.given) for reader in readers] == [6, 6, 4]
    here.run()
    assert [reader.bodies for reader in readers] == [TEN] * 3


@pytest.mark.parametrize("cold", [False, True])
def test_readers_all_over_a_long_stream_are_served_without_room_to_keep_anything(
    monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    monkeypatch.setattr("headrace.queue_stores.log.message_reader.READ_BYTES", 1000)
    here = Stream()
    bodies = [f"{number:0200}" for number in range(200)]
    for at in range(0, 200, 5):
        here.published(*bodies[at : at + 5])
    here.logs.windows.bytes_max = 0
    here.world.disk.cold = cold
    readers = [here.consume(offset(at), prefetch=7) for at in range(0, 200, 4)]
    for _ in range(40):
        here.run()
        for reader in readers:
            reader.channel.ack(0, multiple=True)
    here.run()
    for number, reader in enumerate(readers):
        assert reader.bodies == bodies[number * 4 :]
    assert here.logs.windows.bytes < 5000, "one stretch of the log at most"


def test_what_was_read_for_a_reader_waits_for_his_turn_where_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Stream()
    asked: list[int] = []
    read = here.log._reader.read

    def counted(at: int, *rest: Any) -> None:
        asked.append(at)
        read(at, *rest)

    monkeypatch.setattr(here.log._reader, "read", counted)
    for number in range(20):
        here.published(f"{number:0400}")
    here.logs.windows.bytes_max = 0
    here.world.disk.cold = True
    for at in range(0, 20, 5):
        here.consume(offset(at), prefetch=1)
    assert here.deliver() == 0, "all ask the disk"
    here.world.settle()
    assert here.deliver() == 4
    assert asked == [0, 5, 10, 15]


def test_one_turn_reads_a_few_stretches_and_leaves_the_others_to_the_next() -> None:
    here = Stream()
    for number in range(40):
        here.published(f"{number:0400}")
    readers = [here.consume(offset(at), prefetch=1) for at in reversed(range(40))]
    here.log._cache.clear()
    assert 0 < here.deliver() <= stream_reading.READS_AT_ONCE
    here.run()
    assert [len(reader.given) for reader in readers] == [1] * 40


def test_what_all_readers_have_passed_is_let_go_as_more_comes() -> None:
    here = Stream()
    here.read(FIRST)
    for number in range(50):
        here.published(f"{number:01000}")
    assert here.log._cache.bytes < 5000
    assert here.logs.windows.bytes == here.log._cache.bytes


def test_without_readers_nothing_is_kept_in_memory() -> None:
    here = Stream()
    here.published(*TEN)
    assert here.logs.windows.bytes == 0


# What is refused


def refused(here: Stream, **wishes: object) -> str:
    with pytest.raises(Refused) as error:
        here.consume(FIRST, **wishes)  # type: ignore[arg-type]
    assert len(here.queue.consumers) == 0
    return refusal(error)


def test_a_consumer_says_how_much_it_takes_and_the_channel_does_not() -> None:
    here = Stream()
    assert "consumer prefetch count is not set for stream" in refused(here, prefetch=0)
    channel = ChannelKit(1)
    channel.set_prefetch(5)
    assert "does not support global qos" in refused(here, channel=channel)


def test_a_message_too_large_for_a_segment_is_refused_and_the_stream_goes_on() -> None:
    here = Stream()
    with pytest.raises(ApiError) as refusal:
        here.publish("x" * here.partition.log.config.segment_bytes)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    here.published("a")
    assert here.read(FIRST).bodies == ["a"]


def test_headers_are_those_that_were_published_with_the_offset_behind() -> None:
    here = Stream()
    plain = message("a")
    here.published("a")
    reader: Reader = here.read(FIRST)
    _, _, found, _, _ = reader.given[0]
    assert (found.exchange, found.routing_key, found.body) == ("amq.direct", "q", b"a")
    assert found.header != plain.header

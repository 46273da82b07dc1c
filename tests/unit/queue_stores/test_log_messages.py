"""A durable queue's messages on its log, by the rules that keep them: in one life of a broker."""

import pytest

from headrace.log.retention import apply_retention
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.queue_stores.log.message_reader import READ_BYTES
from headrace.queue_stores.log.message_window import MessageWindow, WindowsBytes
from headrace.queue_stores.queue_settings import Published
from headrace.record.batch import Codec, iterate, new_record, records
from headrace.wire.amqp.properties import Properties, property_of
from tests.support.amqp.deliveries import got
from tests.support.log.log import NOW_MS, batch_of
from tests.support.queues.log import LogQueue, message, shown
from tests.support.queues.queues import settings


def test_messages_of_one_turn_are_one_batch_of_records_with_header_exchange_key_and_body() -> None:
    here = LogQueue()
    here.published("a", "b")
    data = here.world.log(here.partition.topic_partition).read(0, 1 << 20, below=2).data  # type: ignore[arg-type, union-attr]
    assert len(list(iterate(data))) == 1
    (first, _) = records(data)
    assert (first.key, first.value) == (b"q", b"a")
    assert dict(first.headers) == {
        "amqp.header": message("a").header,
        "amqp.exchange": b"amq.direct",
    }
    delivery = here.get()
    assert delivery is not None
    assert delivery[2].exchange == "amq.direct"


def test_nothing_above_the_high_watermark_is_delivered_and_the_confirm_comes_with_the_flush() -> (
    None
):
    here = LogQueue()
    here.published("a")
    assert (here.confirmed_upto, here.gets()) == (1, ["a"])
    here.publish("b")
    here.store.write()
    assert here.partition.log.end_offset == 2
    assert got(here.q, here.channel, here.now) is None
    assert here.confirmed_upto == 1
    told = here.readable_told
    here.settle()
    assert here.confirmed_upto == 2
    assert here.readable_told > told
    assert here.gets() == ["b"]


def test_nothing_is_handed_out_before_it_is_durable_that_it_may_have_been() -> None:
    here = LogQueue(flush_on_ack=False)
    here.publish("a")
    here.store.write()
    assert here.partition.high_watermark == 1
    assert got(here.q, here.channel, here.now) is None
    here.settle()
    assert here.gets() == ["a"]


def test_what_is_committed_as_it_is_written_is_counted_once_and_not_read_again() -> None:
    here = LogQueue(flush_on_ack=False)
    for round_number in (1, 2):
        here.published("a", "b")
        assert (here.q.ready, here.q.ready_bytes) == (2 * round_number, 2 * round_number)
    here.produce(batch_of(b"c"))
    here.settle()
    assert here.q.ready == 5
    assert here.gets() == ["a", "b", "a", "b", "c"]
    assert here.q.ready == 0


def test_what_is_handed_out_ahead_is_written_before_it_is_used_up() -> None:
    here = LogQueue(ahead=10)
    here.published(*map(str, range(40)))
    assert here.gets() == [str(number) for number in range(40)]


def test_deliveries_ahead_are_written_once_per_half_of_the_bound() -> None:
    here = LogQueue(ahead=100)
    here.published(*map(str, range(1000)))
    settlement = here.store._settlement
    take, frames = settlement.take_frame, 0

    def counted() -> object:
        nonlocal frames
        frame = take()
        frames += frame is not None
        return frame

    settlement.take_frame = counted  # type: ignore[method-assign, assignment]
    for number in range(1000):
        # None waits for the disk: what is next was written while half was left.
        delivery = got(here.q, here.channel, here.now)
        assert delivery is not None, number
        here.settle()
    assert 1000 // 100 <= frames <= 1000 // 50 + 1


def test_what_is_not_in_memory_is_read_from_the_log_in_its_order() -> None:
    here = LogQueue(cache_bytes_max=200)
    bodies = [f"{number:05}" for number in range(300)]
    for at in range(0, 300, 7):
        here.published(*bodies[at : at + 7])
    here.world.disk.cold = True
    assert here.gets() == bodies


def test_what_comes_back_is_read_again_and_goes_out_at_its_place_redelivered() -> None:
    here = LogQueue()
    here.published("a", "b", "c")
    assert here.gets(2) == ["a", "b"]
    here.channel.nack(1)
    assert here.gets() == ["a*", "c"]
    here.channel.nack(2)
    here.world.disk.cold = True
    assert here.gets() == ["b*"]


def test_records_of_kafkas_producers_are_messages_whatever_their_codec_or_value() -> None:
    here = LogQueue()
    here.produce(batch_of(b"plain"))
    here.produce(batch_of(b"packed", b"too", codec=Codec.GZIP))
    here.settle()
    assert here.q.ready == 3
    here.published("own")
    assert here.q.ready == 4
    assert here.gets() == ["plain", "packed", "too", "own"]


def test_a_record_without_content_header_is_persistent_and_a_null_value_is_an_empty_body() -> None:
    from headrace.record.batch import build

    here = LogQueue()
    here.produce(bytearray(build([new_record(None, b"key", NOW_MS)])))
    here.produce(bytearray(build([new_record(b"x", b"k", NOW_MS, [("amqp.header", b"junk")])])))
    here.settle()
    first, second = here.get(), here.get()
    assert first is not None
    assert second is not None
    assert (first[2].routing_key, first[2].exchange, first[2].body) == ("key", "", b"")
    assert property_of(first[2].header, "delivery_mode") == 2
    assert property_of(second[2].header, "delivery_mode") == 2
    assert second[2].body == b"x"


def test_what_was_aborted_is_no_message_and_what_is_undecided_waits() -> None:
    here = LogQueue()
    here.published("before")
    for number, commit in enumerate((False, True)):
        here.partition.append_internal(
            batch_of(b"%d" % number, producer=(7, 0, number), transactional=True), now_ms=NOW_MS
        )
        here.publish(f"behind {number}")
        here.settle()
        assert here.q.ready == 2, "own messages count, undecided ones do not"
        if number == 0:
            assert here.gets() == ["before"]
            here.acknowledge(1)
        here.partition.append_marker(7, 0, commit=commit, coordinator_epoch=1, now_ms=NOW_MS)
        here.settle()
        assert here.q.ready == number * 2 + 1
    assert here.gets() == ["behind 0", "1", "behind 1"]


def test_own_batches_are_confirmed_when_they_hold_not_when_others_do() -> None:
    here = LogQueue()
    here.publish("own")
    here.produce(batch_of(b"theirs"))
    here.world.disk.settle()
    here.store.write()
    assert here.confirmed_upto == 0
    here.settle()
    assert here.confirmed_upto == 2
    assert here.gets() == ["theirs", "own"]


def test_a_message_too_large_for_the_topic_is_refused_and_nobody_has_it() -> None:
    here = LogQueue()
    with pytest.raises(ApiError) as refused:
        here.publish("x" * 4000)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    here.published("a")
    assert (here.q.ready, here.gets()) == (1, ["a"])


def test_more_messages_of_a_turn_than_a_batch_takes_become_several() -> None:
    here = LogQueue()
    bodies = [str(number) * 900 for number in range(9)]
    here.published(*bodies)
    assert here.gets() == bodies


def test_a_purge_settles_what_waits_and_leaves_what_is_out() -> None:
    here = LogQueue()
    here.published("a", "b", "c")
    assert here.gets(1) == ["a"]
    here.publish("d")
    assert here.q.purge() == 3
    here.published("e")
    assert here.gets() == ["e"]
    here.wait()
    assert here.killed().gets() == ["a*", "e*"]


@pytest.mark.parametrize("file_exists", [False, True])
@pytest.mark.parametrize("fault", ["write", "sync"])
def test_settled_file_that_cannot_be_written_fails_the_log_directory(
    file_exists: bool, fault: str
) -> None:
    here = LogQueue(ahead=10)
    path = here.partition.log.directory + "/headrace-settled"
    if file_exists:
        here.published("a")
        assert here.gets() == ["a"]
        here.wait()
    else:
        here.publish("a")
        here.store.write()
        here.world.directory.flusher.flush_soon(here.partition.log)
    assert here.world.disk.exists(path) == file_exists
    here.store.write_settled()
    (here.world.disk.fail_writes if fault == "write" else here.world.disk.fail_syncs)(sticky=True)
    here.wait()
    assert here.partition.log.context.failure is not None
    assert here.failures
    assert got(here.q, here.channel, here.now) is None


def test_a_failed_write_is_told_and_nothing_is_taken_any_more() -> None:
    here = LogQueue()
    here.published("a")
    here.world.disk.fail_writes()
    here.publish("b")
    here.settle()
    assert here.failures
    assert here.confirmed_upto == 1
    with pytest.raises(type(here.failures[0])):
        here.store.append(Published(message("c")), None)
    assert here.store.read(0, 10) == ((), ())


def test_expiry_by_queue_and_by_message_counts_from_the_record_when_it_is_read_back() -> None:
    for cache in (0, 1 << 20):
        here = LogQueue(cache_bytes_max=cache, queue_settings=settings(ttl_ms=5000))
        here.published("short", expiration_ms=1000)
        here.published("long")
        here.world.clock.advance(0.999)
        assert here.q.next_deadline() == pytest.approx(1.0)
        here.world.clock.advance(0.002)
        here.q.expire(here.now)
        assert here.q.ready == 1
        here.world.clock.advance(4.0)
        here.q.expire(here.now)
        assert here.q.ready == 0


def test_segments_go_once_all_below_is_settled_and_never_what_is_not() -> None:
    here = LogQueue()
    log = here.partition.log
    for number in range(40):
        here.published(f"{number:0500}")
    assert len(log.segments) > 4
    assert len(here.gets()) == 40
    here.acknowledge(*range(2, 31))
    here.wait()
    assert apply_retention(log, NOW_MS + (1 << 40)) == 0, "the first message is still out"
    assert log.segments[0].base_offset == 0
    here.acknowledge(1)
    here.wait()
    assert 0 < log.segments[0].base_offset <= 30
    assert apply_retention(log, NOW_MS + (1 << 40)) == 0, "all that may go has gone"
    assert here.killed().gets() == [f"{number:0500}*" for number in range(30, 40)]


def test_the_oldest_segment_stays_while_its_settling_is_not_durable() -> None:
    here = LogQueue()
    for number in range(40):
        here.published(f"{number:0500}")
    here.gets()
    here.acknowledge(*range(1, 31))
    holds = here.partition.log.context.holds
    assert holds.first(here.partition.topic_partition) == 0
    here.wait()
    assert holds.first(here.partition.topic_partition) == 30
    here.store.drop()
    assert holds.first(here.partition.topic_partition) == 0, "all, until its topic is deleted"
    assert holds.first(TopicPartition("other", 0)) is None


def test_acknowledging_in_order_leaves_nothing_to_be_written_but_where_it_stands() -> None:
    here = LogQueue(ahead=100_000)
    here.published(*map(str, range(100)))
    here.wait()
    here.gets()
    path = here.partition.log.directory + "/headrace-settled"
    before = here.world.disk.open(path).size()
    here.acknowledge(*range(1, 101))
    here.wait()
    one_frame = here.world.disk.open(path).size() - before
    assert 0 < one_frame < 100


def test_a_large_stretch_is_read_in_pieces() -> None:
    here = LogQueue(cache_bytes_max=0)
    here.world.log(here.partition.topic_partition)
    bodies = [f"{number:03000}" for number in range(2 * READ_BYTES // 3000)]
    for body in bodies:
        here.published(body)
    assert here.gets() == bodies


def test_a_get_shows_the_message_and_its_properties() -> None:
    here = LogQueue(cache_bytes_max=0)
    made = message("a", Properties(delivery_mode=2, content_type="text/plain"))
    here.q.publish(Published(made, persistent=True), here.now)
    here.settle()
    delivery = here.get()
    assert delivery is not None
    assert shown(delivery) == "a"
    assert delivery[2].header == made.header


def test_beyond_what_the_windows_of_all_queues_hold_messages_are_read_from_the_log() -> None:
    windows = WindowsBytes(bytes_max=1)
    first, second = (MessageWindow(0, windows=windows) for _ in range(2))
    has_room = [second.has_room]
    first.extend([0], [message("a")], [None], 1)
    has_room.append(second.has_room)
    first.pass_to(1)
    has_room.append(second.has_room)
    first.extend([1], [message("b")], [None], 2)
    first.release()
    has_room.append(second.has_room)
    assert has_room == [True, False, True, True]
    assert (windows.bytes, first.is_empty) == (0, True)


def test_what_came_back_from_the_log_expires_by_its_own_life() -> None:
    here = LogQueue(cache_bytes_max=0)
    here.published("a", expiration_ms=300)
    here.published("b")
    assert here.gets(2) == ["a", "b"]
    here.channel.nack(0, multiple=True)
    deadline = here.q.next_deadline()
    assert deadline is not None
    assert abs(deadline - 0.3) < 0.002
    here.wait(0.5)
    assert here.gets() == ["b*"]

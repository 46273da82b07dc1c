"""How long a stream has its messages: retention, restarts, kills, and its ends."""

from dataclasses import replace

import pytest

from headrace.log.retention import apply_retention
from headrace.model.errors import ApiError, ErrorCode
from headrace.queue_stores.stream.nothing_settled import NothingSettled
from headrace.wire.amqp.properties import Properties
from tests.support.log.log import NOW_MS
from tests.support.queues.streams import FIRST, Stream, offset

TEN = [str(number) for number in range(10)]


# Retention


def test_a_slow_reader_goes_on_where_the_log_begins() -> None:
    here = Stream()
    bodies = [f"{number:0300}" for number in range(60)]
    for body in bodies:
        here.published(body)
    reader = here.read(FIRST, prefetch=2)
    start = here.retain(40)
    assert start == 40
    reader.acknowledge()
    reader.acknowledge()
    assert reader.offsets == [0, 1, 40, 41, 42, 43]
    here.queue.touch(here.now)
    assert here.queue.ready == 20
    assert here.read(offset(3), prefetch=1).offsets == [40]
    assert here.read(FIRST, prefetch=1).offsets == [40]


def test_the_logs_own_retention_takes_what_nobody_acknowledged() -> None:
    here = Stream()
    for number in range(60):
        here.published(f"{number:0300}")
    here.read(FIRST, prefetch=5)
    size = sum(segment.size for segment in here.partition.log.segments)
    here.partition.log.config = replace(here.partition.log.config, retention_bytes=size // 2)
    assert apply_retention(here.partition.log, NOW_MS) > 0
    assert here.partition.log.start_offset > 20


def test_retention_that_comes_while_a_stretch_is_read_does_no_harm() -> None:
    here = Stream()
    for number in range(60):
        here.published(f"{number:0300}")
    here.world.disk.cold = True
    reader = here.consume(FIRST)
    here.deliver()  # asks the disk
    here.retain(40)
    here.run()
    assert reader.offsets[-1] == 59
    assert reader.offsets[-20:] == [*range(40, 60)]


# Lives


@pytest.mark.parametrize("clean", [True, False])
def test_a_reader_goes_on_by_number_in_the_next_life(clean: bool) -> None:
    here = Stream()
    here.published(*TEN)
    reader = here.read(FIRST, prefetch=4)
    following = reader.offsets[-1] + 1
    again = here.stopped() if clean else here.killed()
    assert again.queue.ready == 10
    assert again.read(offset(following)).bodies == TEN[4:]
    again.published("10")
    assert again.read(offset(9)).bodies == ["9", "10"]


def test_messages_that_are_not_persistent_stay_too() -> None:
    here = Stream()
    here.publish("a", properties=Properties(delivery_mode=1))
    here.run()
    assert here.killed().read(FIRST).bodies == ["a"]


def test_a_stream_that_is_deleted_answers_nobody_and_confirms_what_waits() -> None:
    here = Stream()
    reader = here.read(FIRST)
    here.publish("a")
    assert here.queue.delete() == 0
    assert here.confirmed == [True]
    here.run()
    assert reader.bodies == []
    assert here.logs.windows.bytes == 0


def test_a_log_that_fails_refuses_publishes_and_nobody_waits_for_it() -> None:
    here = Stream()
    reader = here.read(FIRST)
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(ApiError):
        here.publish("a")
    here.run()
    assert reader.bodies == []


def test_a_stream_hands_nothing_out_but_to_its_readers_and_nothing_of_it_expires() -> None:
    store = NothingSettled()
    assert [*store.read(0, 10)] == [(), ()]
    assert store.expires_at(0) is None

"""Edges of queues: at the bound and one beyond it, and what is rarely met together."""

from typing import cast

import pytest

from headrace.delivery.settled_state import SettledState, decode_frames
from headrace.log.file_names import SETTLED
from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError
from headrace.queue_stores.log import settlement
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import messages_in
from headrace.queues.engine.dead_letters import DeathReason
from headrace.queues.engine.dead_messages import as_delivered, dead_message
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.model.argument_checks import MS_MAX
from headrace.queues.model.arguments import queue_settings
from headrace.queues.model.published_properties import traits_of
from headrace.queues.refusals import Refused
from headrace.record.batch import build, new_record
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, header_value, make_header
from tests.support.queues.lives import BrokerLife
from tests.support.queues.log import LogQueue, message
from tests.support.queues.queues import QueueKit, message_of, settings


def frames_of(here: LogQueue) -> list[SettledState]:
    """What the file of a queue says."""
    content = read_file(here.world.disk, f"{here.partition.log.directory}/{SETTLED}")
    return [state for state, _ in decode_frames(content or b"")]


# In memory


def test_what_a_kafka_producer_writes_beyond_a_limit_pushes_the_oldest_out() -> None:
    store = MemoryMessages(MemoryUse())
    kit = QueueKit(settings(length_max=2, dead_letters=True), {0: store})
    kit.publish("a", "b")
    store.append(Published(message_of("c")), None)
    kit.queue.note_arrived(0, 1, 1, kit.now)
    assert (kit.died(), kit.queue.ready) == (["a maxlen"], 2)


def test_what_came_back_is_taken_as_far_as_its_bytes_fit_to_the_last() -> None:
    store = MemoryMessages(MemoryUse())
    level = MessageLevel(0, store)
    for body in ("aaa", "bbb", "c"):
        store.append(Published(message_of(body)), None)
        level.fresh += 1
    taken = level.take(3, 100)
    assert taken is not None
    level.give_back(taken.positions)
    again = level.take(3, 6)
    assert again is not None
    assert list(again.positions) == [0, 1]


def test_what_a_rollback_gives_back_is_acknowledged_with_all_below_it() -> None:
    kit = QueueKit()
    kit.publish("a", "b", "c")
    kit.consume()
    kit.deliver()
    taken = kit.channel.take(1, multiple=False)
    kit.channel.ack(2, multiple=False)
    kit.channel.expire(kit.now, 1_000_000)  # looks for the oldest
    kit.channel.give_back([(1, taken[0])])
    kit.channel.ack(3, multiple=True)
    assert (kit.channel.held, kit.queue.unacked) == ({}, 0)


def test_the_mark_of_a_dead_letter_does_not_leave_the_broker() -> None:
    header = bytearray(make_header(1, Properties()))
    header[3] = 1
    shown = as_delivered(Message("", "q", bytes(header), b"a"), 0)
    assert shown.header == make_header(1, Properties())


# Arguments and properties


@pytest.mark.parametrize(("asked", "limit"), [(0, 0), (1, 1), (-1, 0xFFFF_FFFF)])
def test_a_delivery_limit_of_0_is_one(asked: int, limit: int) -> None:
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": asked}
    assert queue_settings(arguments, "q").delivery_limit == limit


@pytest.mark.parametrize(("asked", "timeout_ms"), [(-5, 0), (0, 0), (1, 1)])
def test_a_consumer_timeout_below_0_is_none(asked: int, timeout_ms: int) -> None:
    assert queue_settings({"x-consumer-timeout": asked}, "q").consumer_timeout_ms == timeout_ms


def test_a_message_may_live_as_long_as_there_are_milliseconds_for() -> None:
    header = make_header(0, Properties(expiration=str(MS_MAX)))
    assert traits_of(header).expiration_ms == MS_MAX
    with pytest.raises(Refused, match="value_too_large"):
        traits_of(make_header(0, Properties(expiration=str(MS_MAX + 1))))


@pytest.mark.parametrize(("size", "kept"), [(255, 255), (256, 0)])
def test_a_kafka_records_key_of_255_bytes_is_the_last_that_is_a_routing_key(
    size: int, kept: int
) -> None:
    data = build([new_record(b"v", key=b"k" * size)])
    (found,) = messages_in(bytes(data), 0).messages
    assert len(found.routing_key) == kept


# On the log


def test_nothing_is_handed_out_above_what_is_durably_told() -> None:
    here = LogQueue(ahead=4)
    here.publish(*"abcdefghij")
    here.settle()
    for _ in range(10):
        positions, _ = here.store.read(here.store._settlement.mark, 100)
        assert positions
        assert positions[-1] < frames_of(here)[-1].handed_out
        assert here.get() is not None
        here.settle()
    assert here.q.ready == 0


def test_the_count_of_many_messages_is_written_though_nothing_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settlement, "COUNTED_EVERY", 5)
    here = LogQueue()
    here.published(*"abcd")
    here.wait()
    assert frames_of(here)[-1].counted_to < 4
    here.published("e")
    here.wait()
    assert frames_of(here)[-1].counted_to == 5


def test_segments_go_when_all_in_them_is_settled_and_nothing_of_the_next() -> None:
    here = LogQueue()
    here.published(*[f"{number:300}" for number in range(40)])
    for number in range(40, 60):
        here.published(f"{number:300}")
    base = here.partition.log.segments[1].base_offset
    here.gets(base)
    here.acknowledge(*range(1, base))
    here.wait()
    assert here.partition.log.start_offset == 0
    here.acknowledge(base)
    here.wait()
    assert here.partition.log.start_offset == base


def test_a_log_whose_file_was_lost_is_begun_where_it_begins() -> None:
    here = LogQueue()
    for number in range(60):
        here.published(f"{number:300}")
    here.gets(40)
    here.acknowledge(*range(1, 41))
    here.wait()
    start = here.partition.log.start_offset
    assert start > 0
    here.world.disk.remove(f"{here.partition.log.directory}/{SETTLED}")
    again = here.killed()
    assert again.q.ready == 60 - again.partition.log.start_offset
    assert len(again.gets()) == again.q.ready + again.q.unacked


# Dead letters


def test_a_dead_letter_that_its_target_could_not_keep_stays_where_it_was() -> None:
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    life = BrokerLife({"dead": {}, "q": dict(letters)})
    life.publish("0.", lambda kept: None)
    life.wait(0.3)
    delivery = life.get()
    assert delivery is not None
    life.channel.nack(delivery[1], requeue=False)
    life.host.touched((life.queue(),))
    life.end_pass()
    (store,) = life.queue("dead").late_stores
    store.failed(HeadraceError("the disk is gone"))  # type: ignore[attr-defined]
    life.wait(0.3)
    left = life.killed().get()
    assert left is not None
    assert left[2].body == b"0."


def test_messages_of_a_queue_with_a_life_are_read_with_the_message_they_came_as() -> None:
    here = LogQueue(queue_settings=settings(ttl_ms=60_000), cache_bytes_max=0)
    here.published("a", expiration_ms=300)
    here.published("b")
    here.wait(0.5)
    assert here.gets() == ["b"]
    assert message("b").routing_key == "q"


# Records of Kafka's producers


def test_a_kafka_records_header_named_as_those_of_further_keys_is_none_of_these() -> None:
    """No publisher of AMQP comes with it: there is nobody to be refused when it dies."""
    headers = [("CC", b"more"), ("BCC", b"hidden"), ("x-death", b"never")]
    (died,) = messages_in(build([new_record(b"x", b"k", 0, list(headers))]), 0).messages
    dead = dead_message(died, "q", settings(dead_letters=True), DeathReason.REJECTED, 0)
    assert (dead.message.routing_key, dead.further_keys) == ("k", ())
    assert header_value(dead.message.header, "CC") == "more"
    (death,) = cast("list[dict[str, object]]", header_value(dead.message.header, "x-death"))
    assert death["routing-keys"] == ["k"]

"""Batches that a producer made: a queue's log appends them unchanged, and each of them once."""

from itertools import groupby
from typing import Any

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.queue_stores.queue_settings import Published, PublishedRun
from headrace.queue_stores.record_messages import batch_of_messages
from headrace.queues.model.published_properties import published, traits_of
from headrace.record.batch import parse_header
from headrace.record.record_parts import ProducerBatch
from headrace.wire.amqp.properties import Properties
from tests.support.queues.lives import BrokerLife
from tests.support.queues.log import message

NOW_MS = 1_700_000_000_000


def life(arguments: dict[str, Any] | None = None) -> BrokerLife:
    """A broker with a durable queue whose log is open."""
    here = BrokerLife({"q": arguments or {}})
    for store in here.queue().late_stores:
        store.want_log()
    here.settle()
    return here


def contents_of(*bodies: str, **properties: Any) -> list[Published]:
    made = [message(body, Properties(delivery_mode=2, **properties)) for body in bodies]
    return [published(each, traits_of(each.header)) for each in made]


def runs_of(contents: list[Published]) -> list[PublishedRun]:
    runs = groupby(contents, lambda each: each[1:])
    return [PublishedRun([each.message for each in some], *kind) for kind, some in runs]


def batch_of(contents: list[Published], sequence: int, epoch: int = 0) -> bytes:
    messages = [content.message for content in contents]
    return batch_of_messages(messages, NOW_MS, ProducerBatch(7, epoch, sequence))


def publish(here: BrokerLife, sequence: int, *bodies: str, epoch: int = 0) -> None:
    contents = contents_of(*bodies)
    batch = batch_of(contents, sequence, epoch)
    here.queue().publish_batch(runs_of(contents), batch, here.now)
    here.settle()


def stored(here: BrokerLife) -> bool:
    """Wait until all publishes are decided; return whether all are stored."""
    told: list[bool] = []
    here.queue().when_stored(lambda unstored: told.append(not unstored))
    here.settle()
    (found,) = told
    return found


def test_batch_is_appended_as_it_is_and_its_messages_are_ready() -> None:
    here = life()
    publish(here, 0, "a", "b")
    queue = here.queue()
    assert (queue.ready, queue.ready_bytes) == (2, 2)
    (log,) = here.world.directory.logs.values()
    segment = log.segments.active
    header = parse_header(segment.file.read(0, segment.size))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    found = here.get()
    assert found is not None
    assert found[2].body == b"a"


def test_repeated_batch_is_confirmed_and_not_appended_again() -> None:
    here = life()
    for _ in range(2):
        publish(here, 0, "a", "b")
        assert stored(here)
    assert here.queue().ready == 2
    here = here.killed()
    publish(here, 0, "a", "b")
    publish(here, 2, "c")
    assert here.queue().ready == 3


def test_batch_behind_a_gap_or_of_a_former_epoch_is_refused() -> None:
    here = life()
    publish(here, 0, "a")
    with pytest.raises(ApiError) as refused:
        publish(here, 2, "c")
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    publish(here, 0, "b", epoch=1)
    with pytest.raises(ApiError) as refused:
        publish(here, 1, "c")
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert here.queue().ready == 2


def test_batch_larger_than_a_segment_is_refused_and_leaves_nothing() -> None:
    here = life()
    with pytest.raises(ApiError) as refused:
        publish(here, 0, "x" * 500, "x" * 500)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert here.queue().ready == 0
    publish(here, 0, "a")
    assert here.queue().ready == 1


def test_messages_published_before_a_batch_precede_it() -> None:
    here = life()
    queue = here.queue()
    queue.publish(contents_of("first")[0], here.now)
    publish(here, 0, "second")
    bodies = [found[2].body for _ in range(2) if (found := here.get())]
    assert bodies == [b"first", b"second"]


def test_messages_of_a_batch_expire_and_are_limited_as_others() -> None:
    here = life({"x-max-length": 2})
    publish(here, 0, "a", "b", "c")
    assert here.queue().ready == 2
    here = life()
    contents = contents_of("a", "b", expiration="50")
    here.queue().publish_batch(runs_of(contents), batch_of(contents, 0), here.now)
    here.wait(0.2)
    here.queue().expire(here.now)
    assert here.queue().ready == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-max-length": 2},
        {"x-max-length": 2, "x-overflow": "reject-publish"},
        {"x-max-priority": 2},
    ],
)
def test_queues_take_batches_if_all_messages_go_to_one_log(arguments: dict[str, Any]) -> None:
    contents = contents_of("a", "b")
    assert life(arguments).queue().takes_batch(runs_of(contents))
    other = contents[0]._replace(priority=1)
    mixed = life(arguments).queue().takes_batch(runs_of([other, *contents]))
    assert mixed is ("x-max-priority" not in arguments)
    assert not BrokerLife({"q": arguments}).queue().takes_batch(runs_of(contents))  # it has no log


def test_batch_that_a_full_queue_has_no_room_for_is_not_taken() -> None:
    here = life({"x-max-length": 2, "x-overflow": "reject-publish"})
    contents = contents_of("a", "b", "c")
    assert here.queue().publish_batch(runs_of(contents), batch_of(contents, 0), here.now) == 2
    assert here.queue().ready == 0
    some = contents[:2]
    assert here.queue().publish_batch(runs_of(some), batch_of(some, 0), here.now) == 2
    here.wait(0.2)
    assert here.queue().ready == 2
    assert (
        here.queue().publish_batch(runs_of(some), batch_of(some, 0), here.now) == 2
    )  # the log has it
    assert here.queue().ready == 2
    other = contents[2:]
    assert here.queue().publish_batch(runs_of(other), batch_of(other, 2), here.now) == 0

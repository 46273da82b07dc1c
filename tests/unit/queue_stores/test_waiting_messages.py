"""Messages published before their queue's log exists, when the log does not accept all of them."""

from typing import NoReturn

import pytest

from headrace.broker.partition import Partition
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.queue_settings import Published
from tests.support.queues.durable import DurableQueue
from tests.support.queues.log import PLACE, message


def test_message_too_large_for_the_new_log_is_refused_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = DurableQueue()
    here.publish("a")
    here.publish("b" * 5000)
    here.store.when_stored(here.told.append)  # another channel, in the same pass
    here.publish("c", "d")
    here.make_log()
    assert sorted(here.told) == [False, False, True, True]
    for _ in range(4):
        here.ask()
    here.world.settle()
    assert here.bodies() == ["a", "c", "d", None]
    assert (here.queue.ready, here.queue.ready_bytes) == (0, 0)
    here.publish("e")
    here.world.settle()
    assert here.told[-1], "the queue goes on"
    (logged,) = [text for text in caplog.messages if "is refused" in text]
    assert "queue 'q' (vhost '/'): a message that waited" in logged
    assert "MESSAGE_TOO_LARGE" in logged


def test_get_of_a_queue_whose_only_message_is_refused_returns_the_error() -> None:
    here = DurableQueue()
    here.publish("b" * 5000)
    here.ask()
    here.make_log()
    assert here.told == [False]
    (told,) = here.bodies()
    assert told is not None
    assert told.startswith("MESSAGE_TOO_LARGE")


def test_purged_messages_are_confirmed_although_a_later_one_is_refused() -> None:
    here = DurableQueue()
    here.publish("a", "b")
    here.queue.purge()
    here.publish("c" * 5000)
    here.publish("d")
    here.queue._levels[0].claimed = 2
    here.make_log()
    assert here.queue._levels[0].claimed == 1, "one of two is left"
    assert sorted(here.told) == [False, True, True]


def test_no_publish_is_confirmed_before_its_message_is_in_the_new_log() -> None:
    """Without a flush the log commits each batch while later messages still wait."""
    here = DurableQueue()
    ends: list[int] = []
    for body in ("a", "b"):
        here.publish(body * 3000)
        here.store.when_stored(lambda kept: ends.append(here.partition.log.end_offset))
    log = here.world.log(PLACE)
    here.partition = Partition(log, flusher=here.world.directory.flusher, flush_on_ack=False)
    here.partition.role.lead(LeaderEpoch(1))
    here.store.have_log(here.partition)
    here.world.settle()
    assert ends == [2, 2]


def test_log_that_refuses_all_messages_fails_the_queue_and_nacks_each_publish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = DurableQueue()
    here.publish("a")
    here.publish("b")

    def lost(self: LogMessages, published: Published, expires_at: float | None) -> int:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(LogMessages, "append", lost)
    here.make_log()
    assert here.told == [False, False]
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        here.store.append(Published(message("c"), 0, None, True), None)


def test_write_that_fails_between_waiting_messages_nacks_each_publish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first batch is written while the second one is begun."""
    here = DurableQueue()
    here.publish("a" * 3000)
    here.publish("b" * 3000)

    def full(self: Partition, content: bytearray, **more: object) -> NoReturn:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(Partition, "append_internal", full)
    here.make_log()
    assert here.told == [False, False]

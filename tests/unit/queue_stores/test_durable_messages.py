"""A durable queue before its log is there, while it is, and when it goes."""

import pytest

from headrace.model.errors import ErrorCode, HeadraceError
from headrace.model.invariant import InvariantError
from headrace.queue_stores.log import held_batches, waiting_messages
from headrace.queue_stores.log.settlement import Settlement
from headrace.queue_stores.queue_settings import Published
from tests.support.queues.durable import DurableQueue
from tests.support.queues.log import message
from tests.support.queues.queues import settings


def test_messages_wait_for_their_log_and_are_confirmed_once_it_holds_them() -> None:
    here = DurableQueue()
    here.publish("a", "b")
    here.publish("c")
    assert here.asked == [here.store], "it is asked for once"
    here.world.settle()
    assert here.told == []
    here.make_log()
    assert here.told == [True, True]
    assert here.partition.log.end_offset == 3
    here.publish("d")
    assert here.told == [True, True]
    here.world.settle()
    assert here.told == [True, True, True]


def test_a_queue_without_messages_asks_for_no_log_and_waits_for_none() -> None:
    here = DurableQueue()
    here.publish()
    assert (here.asked, here.told) == ([], [True])
    here.ask()
    assert here.got == [None]


def test_publish_to_a_queue_deleted_in_the_same_pass_is_confirmed() -> None:
    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.queue.publish(Published(message("b"), 0, None, True), here.now)
    here.queue.delete()
    told: list[bool] = []
    here.store.when_stored(told.append)
    assert told == [True]


def test_what_was_purged_before_the_log_was_there_is_confirmed_and_gone() -> None:
    here = DurableQueue()
    here.publish("a", "b")
    assert here.queue.purge() == 2
    here.publish("c")
    here.make_log()
    here.ask()
    here.ask()
    here.world.settle()
    assert (here.told, here.bodies()) == ([True, True], ["c", None])


def test_where_no_log_can_be_made_all_is_refused_and_who_waits_is_told() -> None:
    here = DurableQueue()
    here.publish("a")
    here.ask()
    here.store.have_log(HeadraceError("no room"))
    here.world.settle()
    assert (here.told, here.bodies()) == ([False], ["no room"])
    with pytest.raises(HeadraceError, match="no room"):
        here.queue.publish(Published(message("b"), 0, None, True), here.now)
    here.store.when_stored(here.told.append)
    assert here.told == [False, False]
    assert (here.queue.ready, here.queue.ready_bytes) == (0, 0)


def test_queue_recovers_without_a_restart_once_its_log_can_be_created(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RabbitMQ restarts a queue that crashed, too: no restart of the broker is needed."""
    here = DurableQueue()
    here.publish("lost")
    for requests, problem in enumerate(("no room", "no controller"), 1):
        assert here.asked == [here.store] * requests
        here.store.have_log(HeadraceError(problem))
        for _ in range(2):
            with pytest.raises(HeadraceError, match=problem):
                here.publish("refused")
    assert here.asked == [here.store] * 3, "one request at a time"
    here.make_log()
    here.publish("a", "bb")
    for _ in range(3):
        here.ask()
    here.world.settle()
    assert (here.told, here.bodies()) == ([False, True], ["a", "bb", None])
    assert (here.queue.ready, here.queue.ready_bytes) == (0, 0)
    logged = [text for text in caplog.messages if "cannot be created" in text]
    assert len(logged) == 1
    assert "queue 'q' (vhost '/'): its log cannot be created: no room" in logged[0]


def test_claims_of_messages_without_a_log_end_when_they_are_refused() -> None:
    here = DurableQueue(settings(ttl_ms=1000))
    here.publish("lost")
    here.queue._levels[0].claimed = 1
    here.store.have_log(HeadraceError("no room"))
    assert here.queue._levels[0].claimed == 0


def test_messages_of_other_priorities_stay_if_one_has_no_log() -> None:
    here = DurableQueue(settings(priority_max=2))
    here.publish("stays")
    here.make_log()
    here.ask()
    other = next(store for store in here.stores if store.priority == 2)
    here.queue.publish(Published(message("lost"), 2, None, True), here.now)
    other.have_log(HeadraceError("no room"))
    here.world.settle()
    assert here.bodies() == ["stays"]
    here.publish("more")
    here.world.settle()
    assert (here.queue.ready, here.queue.ready_bytes) == (1, 4)


def test_more_than_may_wait_for_the_log_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_messages, "WAITING_BYTES_MAX", 300)
    here = DurableQueue()
    here.publish("a")
    with pytest.raises(HeadraceError, match="the queue's log is not open yet"):
        here.publish("b" * 200)
    here.make_log()
    assert here.told == [True]
    assert (here.queue.ready, here.queue.ready_bytes) == (1, 1)


@pytest.mark.parametrize("end", ["written", "purged", "deleted", "failed"])
def test_what_waits_for_its_log_counts_as_memory_and_no_longer(end: str) -> None:
    here = DurableQueue()
    memory = here.logs.memory
    here.publish("a" * 1000, "b" * 1000)
    assert 2000 < memory.bytes < 3000
    if end == "written":
        here.make_log()
    elif end == "purged":
        here.queue.purge()
    elif end == "deleted":
        here.queue.delete()
    else:
        here.store.have_log(HeadraceError("no room"))
    assert memory.bytes == 0


MUCH = ["a" * 1000] * (held_batches.CROWDED_BYTES // 1000)
"""With what records add, more than may wait without holding up who publishes."""


def held_up(here: DurableQueue) -> list[str]:
    """Publish too much, and have its publisher held up."""
    here.publish(*MUCH)
    told: list[str] = []
    assert here.logs.hold_up(lambda: told.append("go on")) == 1
    assert here.logs.hold_up(lambda: told.append("never")) == 0, "who publishes no more goes on"
    return told


def test_who_publishes_much_before_the_log_is_there_is_held_up_until_it_is() -> None:
    here = DurableQueue()
    here.publish("a")
    assert here.logs.hold_up(lambda: None) == 0
    told = held_up(here)
    assert told == []
    here.make_log()
    assert told == ["go on"]
    here.publish(*MUCH)
    assert here.logs.hold_up(lambda: None) == 0


@pytest.mark.parametrize("end", ["refused", "purged", "deleted", "closed"])
def test_who_is_held_up_goes_on_when_there_will_be_no_log(end: str) -> None:
    here = DurableQueue()
    told = held_up(here)
    match end:
        case "refused":
            here.store.have_log(HeadraceError("no room"))
        case "purged":
            here.queue.purge()
        case "deleted":
            here.queue.delete()
        case "closed":
            here.store.close(lambda: None)
    assert told == ["go on"]


def test_a_queue_that_was_purged_before_its_publisher_was_looked_at_holds_nobody_up() -> None:
    here = DurableQueue()
    here.publish(*MUCH)
    here.queue.purge()
    assert here.logs.hold_up(lambda: None) == 0


def test_a_get_waits_until_the_message_may_be_delivered() -> None:
    here = DurableQueue()
    here.publish("a")
    here.ask()
    here.ask()
    assert here.got == []
    here.make_log()
    assert here.bodies() == ["a", None]
    here.publish("b")
    here.ask()
    assert here.bodies() == ["a", None], "it is not on disk yet"
    here.world.settle()
    assert here.bodies() == ["a", None, "b"]


def test_a_channel_that_has_closed_gets_nothing_and_takes_nothing() -> None:
    here = DurableQueue()
    here.publish("a")
    here.ask()
    here.channel.close()
    here.make_log()
    assert here.got == []
    assert here.queue.ready == 1


def test_who_waits_for_a_message_of_a_deleted_queue_gets_none_and_its_publisher_is_confirmed() -> (
    None
):
    here = DurableQueue()
    here.publish("a")
    here.ask()
    assert here.queue.delete() == 1
    assert (here.told, here.got) == ([True], [None])
    here.make_log()
    assert here.partition.log.end_offset == 0, "nobody writes to the log of a deleted queue"


def test_a_queue_that_is_deleted_while_its_messages_are_flushed_confirms_them() -> None:
    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.publish("b")
    assert here.told == [True]
    here.queue.delete()
    assert here.told == [True, True]
    here.world.settle()
    assert here.told == [True, True]


def test_what_a_kafka_producer_wrote_first_is_a_message_too() -> None:
    here = DurableQueue()
    here.store.want_log()
    here.make_log("from kafka")
    assert here.queue.ready == 1
    here.ask()
    here.world.settle()
    assert here.bodies() == ["from kafka"]


def test_confirms_do_not_wait_for_what_others_write() -> None:
    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.produce("b")
    here.store.when_stored(here.told.append)
    assert here.told == [True, True]
    here.publish("c")
    here.produce("d")
    here.world.settle()
    assert here.told == [True, True, True]
    assert here.queue.ready == 4


def test_what_is_flushed_while_the_queue_closes_is_confirmed() -> None:
    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.publish("b")
    closed: list[bool] = []
    here.store.close(lambda: closed.append(True))
    assert (here.told, closed) == ([True], [])
    here.world.settle()
    assert (here.told, closed) == ([True, True], [True])
    with pytest.raises(HeadraceError, match="the broker is stopping"):
        here.queue.publish(Published(message("c"), 0, None, True), here.now)


def test_a_log_that_fails_is_told_to_who_waits() -> None:
    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.publish("b")
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    here.world.settle()
    assert here.told == [True, False]


def test_the_logs_of_all_priorities_are_read_once_there_is_one() -> None:
    here = DurableQueue(settings(priority_max=2))
    here.publish("a")
    here.make_log()
    assert [store.priority for store in here.asked] == [0, 1, 2]


def test_broken_settlement_closes_the_queue_and_writes_no_frame() -> None:
    here = DurableQueue()
    here.publish("a", "b", "c")
    here.make_log()
    here.ask()
    here.world.settle()
    settlement = here.store._messages._settlement  # type: ignore[union-attr]
    path = settlement.path
    before = here.world.disk.open(path).size()
    settlement.waiting = settlement.waiting._replace(messages=0)
    here.ask()
    here.world.settle()
    assert here.broken == ["more messages are delivered than are unsettled"]
    assert here.bodies() == ["a", "it is broken"]
    settlement.change(soon=True)
    here.world.settle()
    assert here.world.disk.open(path).size() == before
    with pytest.raises(HeadraceError):
        here.publish("d")
    here.queue.drop_stores()
    log = here.partition.log
    assert log.topic_partition not in log.context.holds._holders


def test_broken_count_of_commits_nacks_publishes_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def contradicts(*_: object) -> None:
        raise InvariantError("a test")

    here = DurableQueue()
    here.publish("a")
    here.make_log()
    here.publish("b")
    monkeypatch.setattr(Settlement, "count", contradicts)
    here.world.settle()
    assert (here.told, here.broken) == ([True, False], ["a test"])

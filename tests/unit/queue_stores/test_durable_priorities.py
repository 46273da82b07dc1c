"""A durable queue with priorities: each has a store of its own, and none stands for all."""

from headrace.model.errors import HeadraceError
from headrace.queue_stores.queue_settings import Published
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.durable import DurableQueue
from tests.support.queues.log import message
from tests.support.queues.queues import settings


def published() -> tuple[DurableQueue, list[bool]]:
    """A queue with a message of priority 0 and one of 2 that wait for their logs; the results of
    waiting for each."""
    here = DurableQueue(settings(priority_max=2))
    for priority in (0, 2):
        content = Published(message(f"of {priority}"), priority, None, True)
        here.queue.publish(content, here.now)
    told: list[bool] = []
    assert [store.priority for store in here.stores] == [0, 2]
    for store in here.stores:
        store.when_stored(told.append)
    return here, told


def test_a_queue_that_is_closed_nacks_publishes_of_each_priority() -> None:
    here, told = published()
    here.queue.abandon(Refused(RefusalKind.BROKEN, "queue", "it is broken"))
    assert told == [False, False]


def test_a_queue_that_is_deleted_confirms_publishes_of_each_priority() -> None:
    here, told = published()
    here.queue.delete()
    assert told == [True, True]


def test_a_confirm_waits_for_the_stores_of_all_priorities() -> None:
    here, told = published()
    whole: list[bool] = []
    here.queue.when_stored(lambda unstored: whole.append(not unstored))
    here.stores[0].failed(HeadraceError("no room"))
    assert (told, whole) == ([False], [])
    here.stores[1].drop()
    assert (told, whole) == ([False, True], [False])


def test_logs_of_all_priorities_are_created_with_the_first() -> None:
    here, _ = published()
    here.queue.log_made()
    assert sorted(store.priority for store in here.asked) == [0, 1, 2]

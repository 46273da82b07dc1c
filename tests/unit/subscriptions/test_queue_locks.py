"""Locks of queues: one owner at a time, until it releases them or 60 s have passed."""

from headrace.subscriptions.queue_locks import LOCK_SECONDS, LockedQueue, QueueLocks

A, B = LockedQueue("orders", "broker-a", 0), LockedQueue("orders", "broker-a", 1)


def test_a_queue_has_one_owner() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "one", [A, B], 0.0) == [A, B]
    assert locks.lock("g", "two", [A, B], 0.0) == []
    assert locks.owner("g", A, 0.0) == "one"


def test_of_several_queues_the_free_ones_are_locked() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0.0)
    assert locks.lock("g", "two", [A, B], 0.0) == [B]
    assert locks.owner("g", B, 0.0) == "two"


def test_groups_lock_queues_apart() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0.0)
    assert locks.lock("h", "two", [A], 0.0) == [A]


def test_queues_of_other_brokers_and_topics_are_other_queues() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0.0)
    others = [A._replace(topic="t"), A._replace(broker_name="b"), A._replace(queue_id=7)]
    assert locks.lock("g", "two", others, 0.0) == others


def test_a_lock_ends_60_seconds_after_its_renewal() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A], 0.0)
    locks.lock("g", "one", [A], 20.0)
    end = 20.0 + LOCK_SECONDS
    assert locks.lock("g", "two", [A], end - 0.1) == []
    assert locks.owner("g", A, end - 0.1) == "one"
    assert locks.owner("g", A, end) is None
    assert locks.lock("g", "two", [A], end) == [A]
    assert locks.lock("g", "one", [A], end) == []


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", [A, B], 0.0)
    locks.unlock("g", "two", [A, B])
    locks.unlock("h", "one", [A])
    assert locks.owner("g", A, 0.0) == "one"
    locks.unlock("g", "one", [A])
    assert locks.owner("g", A, 0.0) is None
    assert locks.owner("g", B, 0.0) == "one"
    locks.unlock("g", "one", [A])


def test_ended_locks_do_not_stay_in_memory() -> None:
    locks = QueueLocks()
    queues = [A._replace(queue_id=number) for number in range(3000)]
    locks.lock("g", "one", queues, 0.0)
    locks.lock("g", "one", [A], LOCK_SECONDS)
    assert len(locks) == 1

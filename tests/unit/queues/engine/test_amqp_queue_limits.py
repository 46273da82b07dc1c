"""Lives, lengths and priorities of a queue's messages, and what dies of them."""

import pytest

from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Overflow, Published
from headrace.queues.engine.dead_letters import DeathReason
from headrace.queues.engine.ready_messages import EXPIRED_BATCH_MAX
from tests.support.queues.queues import QueueKit, message_of, settings


def test_messages_expire_at_the_moment_they_are_of_age_and_the_queue_tells_when() -> None:
    kit = QueueKit(settings(ttl_ms=1000, dead_letters=True))
    kit.publish("a")
    kit.now += 0.5
    kit.publish("b")
    assert kit.queue.next_deadline() == 101
    assert not kit.queue.expire(100.999)
    assert (kit.died(), kit.queue.ready) == ([], 2)
    kit.queue.expire(101)
    assert (kit.died(), kit.queue.ready) == (["a expired"], 1)
    assert kit.queue.next_deadline() == 101.5
    kit.now = 101.5
    assert kit.get() is None
    assert kit.died() == ["b expired"]
    assert kit.queue.next_deadline() is None


def test_a_message_behind_one_that_does_not_expire_waits_for_its_turn_to_die() -> None:
    kit = QueueKit(settings(dead_letters=True))
    kit.publish("stays")
    kit.publish("short", expiration_ms=10)
    kit.now += 1
    assert kit.queue.next_deadline() is None
    kit.queue.expire(kit.now)
    assert kit.queue.ready == 2
    assert kit.get() == ":stays"
    # At once: whoever asked is told how many are left, and this one is not.
    assert (kit.died(), kit.queue.ready) == (["short expired"], 0)
    assert kit.get() is None


@pytest.mark.parametrize(("queue_ms", "own_ms", "seconds"), [(5, 7, 0.005), (7, 5, 0.005)])
def test_the_shorter_of_two_lives_counts(queue_ms: int, own_ms: int, seconds: float) -> None:
    kit = QueueKit(settings(ttl_ms=queue_ms))
    kit.publish("a", expiration_ms=own_ms)
    assert kit.queue.next_deadline() == kit.now + seconds


def test_a_life_of_0_is_for_who_can_take_at_once_and_for_nobody_later() -> None:
    kit = QueueKit(settings(ttl_ms=0, dead_letters=True))
    kit.publish("nobody")
    assert (kit.died(), kit.queue.ready) == (["nobody expired"], 0)
    kit.consume(prefetch=1)
    kit.publish("taken", "late")
    kit.now += 1
    assert kit.deliver() == ["c:taken"]
    assert kit.died() == ["late expired"]


def test_what_is_put_back_has_the_life_it_had() -> None:
    kit = QueueKit(settings(ttl_ms=1000))
    kit.consume(prefetch=1)
    kit.publish("a")
    kit.deliver()
    kit.now += 1
    kit.channel.nack(1)
    assert kit.deliver() == []
    assert kit.queue.ready == 0


def test_no_more_expire_in_one_call_than_a_batch_and_nothing_of_age_is_delivered() -> None:
    kit = QueueKit(settings(ttl_ms=1))
    kit.publish(*["x"] * (EXPIRED_BATCH_MAX + 5))
    kit.now += 1
    kit.consume()
    assert kit.deliver() == []
    assert kit.queue.ready == 5
    deadline = kit.queue.next_deadline()
    assert deadline is not None
    assert deadline <= kit.now
    kit.queue.expire(kit.now)
    assert kit.queue.ready == 0


def test_the_oldest_go_where_there_are_too_many_or_too_many_bytes() -> None:
    kit = QueueKit(settings(length_max=2, length_bytes_max=4, dead_letters=True))
    kit.publish("a", "b", "c")
    assert kit.died() == ["a maxlen"]
    kit.publish("dd")
    assert kit.died() == ["b maxlen"]
    kit.publish("eee")
    assert kit.died() == ["c maxlen", "dd maxlen"]
    assert (kit.queue.ready, kit.queue.ready_bytes) == (1, 3)
    kit.publish("fffff")
    assert kit.died() == ["eee maxlen", "fffff maxlen"]


def test_what_is_out_does_not_count_and_what_a_consumer_takes_was_never_too_much() -> None:
    kit = QueueKit(settings(length_max=1, dead_letters=True))
    kit.consume(prefetch=2)
    kit.publish("a", "b", "c")
    assert kit.died() == []
    assert kit.deliver() == ["c:a", "c:b"]
    kit.publish("d")
    assert kit.died() == ["c maxlen"]
    kit.channel.nack(1)
    assert kit.died() == ["a maxlen"]


def test_a_queue_of_length_0_gives_what_can_be_taken_and_keeps_nothing() -> None:
    kit = QueueKit(settings(length_max=0))
    kit.consume(prefetch=1)
    kit.publish("a", "b")
    assert kit.deliver() == ["c:a"]
    assert kit.queue.ready == 0


def test_a_full_queue_that_refuses_takes_again_once_there_is_room() -> None:
    kit = QueueKit(settings(length_max=2, overflow=Overflow.REJECT_PUBLISH, dead_letters=True))
    assert kit.publish("a", "b", "c") == [True, True, False]
    assert kit.died() == []
    assert kit.get() == ":a"
    assert kit.publish("d", "e") == [True, False]


def test_a_full_queue_in_bytes_refuses_what_does_not_fit_and_takes_what_does() -> None:
    kit = QueueKit(settings(length_bytes_max=3, overflow=Overflow.REJECT_PUBLISH))
    assert kit.publish("aa", "bb", "c", "") == [True, False, True, True]


def test_a_consumer_with_credit_makes_room_before_a_publish_is_refused() -> None:
    kit = QueueKit(settings(length_max=1, overflow=Overflow.REJECT_PUBLISH))
    kit.consume(prefetch=1)
    assert kit.publish("a", "b", "c") == [True, True, False]
    assert kit.deliver() == ["c:a"]
    kit.channel.ack(1)
    assert kit.publish("d") == [True]
    assert kit.deliver() == ["c:b"]


def test_a_refused_publish_is_dead_lettered_where_that_is_asked_for() -> None:
    kit = QueueKit(settings(length_max=1, overflow=Overflow.REJECT_PUBLISH_DLX, dead_letters=True))
    assert kit.publish("a", "b") == [True, False]
    assert kit.died() == ["b maxlen"]
    assert kit.queue.ready == 1


def test_what_arrives_without_publish_is_held_to_the_length() -> None:
    kit = QueueKit(settings(length_max=1, dead_letters=True))
    kit.publish("a", "b")
    kit.queue.note_arrived(0, 0, 0, kit.now)
    assert kit.died() == ["a maxlen"]


def test_what_a_store_got_by_itself_expires_as_the_queue_says() -> None:
    store = MemoryMessages(MemoryUse())
    kit = QueueKit(settings(ttl_ms=1000, dead_letters=True), kept={0: store})
    store.append(Published(message_of("a")), kit.now + 1)
    kit.queue.note_arrived(0, 1, 1, kit.now)
    assert kit.queue.ready == 1
    assert kit.queue.next_deadline() == 101
    kit.queue.expire(101)
    assert kit.died() == ["a expired"]


def test_higher_priorities_go_out_first_and_each_level_keeps_its_order() -> None:
    kit = QueueKit(settings(priority_max=5))
    kit.publish("low", priority=1)
    kit.publish("high", priority=5)
    kit.publish("above", priority=9)
    kit.publish("none")
    assert [kit.get() for _ in range(3)] == [":high", ":above", ":low"]
    kit.channel.nack(3)
    kit.channel.nack(1)
    assert kit.queue.ready == 3
    assert [kit.get() for _ in range(4)] == [":high again", ":low again", ":none", None]


def test_priorities_say_nothing_on_a_queue_that_has_none() -> None:
    kit = QueueKit()
    kit.publish("a", priority=1)
    kit.publish("b", priority=5)
    assert kit.get() == ":a"


def test_a_priority_queue_that_is_too_long_loses_the_head_which_is_the_highest() -> None:
    kit = QueueKit(settings(priority_max=5, length_max=1, dead_letters=True))
    kit.publish("high", priority=5)
    kit.publish("low", priority=1)
    assert kit.died() == ["high maxlen"]


def test_only_the_head_of_the_highest_level_expires() -> None:
    kit = QueueKit(settings(priority_max=5, dead_letters=True))
    kit.publish("low", priority=1, expiration_ms=1)
    kit.publish("high", priority=5)
    kit.now += 1
    kit.queue.expire(kit.now)
    assert kit.died() == []
    assert kit.get() == ":high"
    kit.queue.expire(kit.now)
    assert kit.died() == ["low expired"]


def test_an_unused_queue_goes_in_time_and_each_use_puts_that_off() -> None:
    kit = QueueKit(settings(expires_ms=1000))
    assert kit.queue.next_deadline() == 101
    assert not kit.queue.expire(100.99)
    assert kit.queue.expire(101)
    kit.now = 100.5
    kit.get()
    assert kit.queue.next_deadline() == 101.5
    kit.queue.touch(100.6)
    assert kit.queue.next_deadline() == 101.6
    consumer = kit.consume()
    assert kit.queue.next_deadline() is None
    assert not kit.queue.expire(1e9)
    kit.queue.cancel(consumer, 200.0)
    assert kit.queue.next_deadline() == 201
    assert kit.queue.expire(201)


def test_the_nearer_of_two_deadlines_is_told() -> None:
    kit = QueueKit(settings(expires_ms=1000, ttl_ms=500))
    kit.publish("a")
    assert kit.queue.next_deadline() == 100.5
    later = QueueKit(settings(expires_ms=1000, ttl_ms=5000))
    later.publish("a")
    assert later.queue.next_deadline() == 101


def test_a_purge_takes_what_waits_and_leaves_what_is_out() -> None:
    kit = QueueKit(settings(dead_letters=True))
    kit.consume(prefetch=2)
    kit.publish("a", "b", "c", "d")
    kit.deliver()
    kit.channel.nack(1)
    assert kit.queue.purge() == 3
    assert (kit.queue.ready, kit.queue.ready_bytes, kit.queue.unacked) == (0, 0, 1)
    assert kit.died() == []
    kit.publish("e")
    kit.channel.nack(2)
    assert kit.deliver() == ["c:b again", "c:e"]


def test_what_was_out_during_a_purge_still_expires_when_it_is_put_back() -> None:
    kit = QueueKit(settings(ttl_ms=1000, dead_letters=True))
    kit.publish("a")
    kit.get()
    kit.queue.purge()
    kit.channel.nack(1)
    assert kit.queue.next_deadline() == 101
    kit.queue.expire(101)
    assert kit.died() == ["a expired"]


def test_a_deletion_tells_how_many_messages_were_ready_and_stops_the_consumers() -> None:
    kit = QueueKit()
    kit.consume(prefetch=1)
    kit.publish("a")
    kit.publish("b")
    assert kit.deliver() == ["c:a"]
    assert kit.queue.delete() == 1
    assert kit.queue.deleted


def test_a_dead_letter_is_kept_until_its_target_holds_it() -> None:
    kit = QueueKit(settings(dead_letters=True))
    kit.publish("a")
    kit.get()
    store = kit.queue._plain.store
    kit.channel.nack(1, requeue=False)
    (letter,) = kit.queue.take_dead_letters()
    assert letter.reason is DeathReason.REJECTED
    assert letter.message is not None
    assert list(store.read(0, 9)[0]) == [0]
    assert kit.queue.take_dead_letters() == []
    kit.queue.dead_letters_stored([letter])
    assert list(store.read(0, 9)[0]) == []


@pytest.mark.parametrize("priorities", [None, 2])
def test_consumers_are_given_nothing_of_age_that_lies_behind_what_is_not(
    priorities: int | None,
) -> None:
    kit = QueueKit(settings(dead_letters=True, priority_max=priorities))
    kit.publish("first", priority=1)
    kit.publish("short", expiration_ms=10)
    kit.publish("last")
    kit.now += 1
    kit.consume()
    assert kit.deliver() == ["c:first", "c:last"]
    assert (kit.died(), kit.queue.ready) == (["short expired"], 0)


def test_what_came_back_and_is_of_age_meanwhile_is_given_to_nobody() -> None:
    kit = QueueKit(settings(dead_letters=True))
    kit.publish("first")
    kit.publish("short", expiration_ms=10)
    assert [kit.get(), kit.get()] == [":first", ":short"]
    kit.now += 1
    kit.channel.nack(0, multiple=True)
    kit.consume()
    assert kit.deliver() == ["c:first again"]
    assert (kit.died(), kit.queue.ready) == (["short expired"], 0)

"""Messages wait without a confirm while a partition has too few in-sync replicas."""

import pytest

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log import held_batches
from headrace.queue_stores.record_messages import batch_of_messages
from headrace.record.batch import check_produced
from headrace.record.record_parts import ProducerBatch
from tests.support.log.log import NOW_MS, batch_of, records_of
from tests.support.queues.log import LogQueue, message


def shrink(here: LogQueue) -> None:
    """Have the ISR too small."""
    here.partition.role.too_few_replicas = True


def grow(here: LogQueue) -> None:
    """Have the ISR large enough again, as `PartitionRole` tells its watchers."""
    here.partition.role.too_few_replicas = False
    here.partition._wake()


def logged(here: LogQueue) -> list[str]:
    log = here.partition.log
    data = log.read(0, 1 << 20, below=log.end_offset).data  # type: ignore[arg-type, union-attr]
    return [(record.value or b"").decode() for record in records_of(bytes(data))]


def test_messages_wait_and_are_appended_in_their_order() -> None:
    here = LogQueue()
    here.published("a")
    shrink(here)
    for body in "bcd":
        here.published(body)
    assert (logged(here), here.confirmed_upto, here.failures) == (["a"], 1, [])
    assert here.q.ready == 4
    assert here.gets() == ["a"], "committed messages are delivered"
    grow(here)
    here.publish("e")
    here.settle()
    assert logged(here) == ["a", "b", "c", "d", "e"]
    assert here.confirmed_upto == 5
    assert here.gets() == ["b", "c", "d", "e"]


def test_messages_wait_from_hold_to_release() -> None:
    here = LogQueue()
    here.published("a")
    here.store.hold()
    here.published("b")
    shrink(here)
    here.store.release()
    here.settle()
    assert (logged(here), here.confirmed_upto) == (["a"], 1), "too few replicas are in sync"
    here.store.hold()
    grow(here)
    here.settle()
    assert (logged(here), here.confirmed_upto) == (["a"], 1)
    here.store.release()
    here.settle()
    assert (logged(here), here.confirmed_upto) == (["a", "b"], 2)
    here.store.hold()
    here.store.release()
    here.published("c")
    assert (logged(here), here.confirmed_upto) == (["a", "b", "c"], 3)


def test_isr_that_is_too_small_again_holds_the_rest() -> None:
    here = LogQueue()
    shrink(here)
    here.published("a")
    here.published("b")
    grow(here)
    here.world.clock.turn()
    shrink(here)
    here.settle()
    assert (logged(here), here.confirmed_upto) == (["a"], 1)
    grow(here)
    here.settle()
    assert (logged(here), here.confirmed_upto) == (["a", "b"], 2)


def test_no_publish_is_confirmed_by_the_records_of_kafka_producers() -> None:
    here = LogQueue()
    shrink(here)
    here.published("a")
    here.published("b")
    batch = batch_of(b"k1", b"k2", b"k3")
    header = check_produced(memoryview(batch))
    here.partition.append(memoryview(batch), header, now_ms=NOW_MS, required_acks=1)
    grow(here)
    here.world.clock.turn()
    shrink(here)
    here.settle()
    assert logged(here) == ["k1", "k2", "k3", "a"]
    assert here.confirmed_upto == 1, "b waits still"
    grow(here)
    here.settle()
    assert here.confirmed_upto == 2


def test_purged_messages_are_confirmed_and_never_appended() -> None:
    here = LogQueue()
    here.published("a")
    shrink(here)
    here.published("b", "c")
    assert here.q.purge() == 3
    here.settle()
    assert here.confirmed_upto == 3
    here.published("d")
    grow(here)
    here.settle()
    assert logged(here) == ["a", "d"]
    assert here.confirmed_upto == here.store.appended_to
    assert here.gets() == ["d"]


def test_more_than_may_wait_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_batches, "WAITING_BYTES_MAX", 300)
    here = LogQueue()
    shrink(here)
    here.published("a" * 400)
    with pytest.raises(HeadraceError, match=r"fewer in-sync replicas than min.insync.replicas"):
        here.publish("b")
    grow(here)
    here.settle()
    here.published("c")
    assert logged(here) == ["a" * 400, "c"]


def test_lifetimes_do_not_pass_while_messages_wait() -> None:
    here = LogQueue()
    shrink(here)
    here.published("a", expiration_ms=10_000)
    here.world.clock.advance(60)
    grow(here)
    here.settle()
    assert here.gets() == ["a"]


def test_leader_that_resigns_forgets_what_waits() -> None:
    here = LogQueue()
    shrink(here)
    here.published("a")
    here.store.resign()
    grow(here)
    here.settle()
    assert (logged(here), here.confirmed_upto) == ([], 0)


def test_broker_that_stops_forgets_what_waits() -> None:
    here = LogQueue()
    here.published("a")
    shrink(here)
    here.published("b")
    closed: list[bool] = []
    here.store.close(lambda: closed.append(True))
    here.settle()
    grow(here)
    here.settle()
    assert (logged(here), closed) == (["a"], [True])


def test_batch_of_a_producer_that_waits_is_known_when_it_is_sent_again() -> None:
    here = LogQueue()
    shrink(here)

    def sent(sequence: int, *bodies: str) -> bool:
        batch = batch_of_messages(
            [message(body) for body in bodies], NOW_MS, ProducerBatch(7, 0, sequence)
        )
        if here.store.has_batch(batch):
            return True
        here.publish(*bodies)
        here.store.write(batch)
        return False

    assert not sent(0, "a", "b")
    assert not sent(2, "c")
    assert sent(0, "a", "b")
    assert sent(2, "c")
    with pytest.raises(ApiError) as refused:
        sent(5, "x")
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    grow(here)
    here.settle()
    assert logged(here) == ["a", "b", "c"]
    assert sent(2, "c")

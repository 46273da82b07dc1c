"""What every client with a transactional producer must be able to do."""

import re
import time
import uuid
from collections.abc import Callable

from tests.outside.clients.clients.base import Client, Rec
from tests.outside.clients.scenarios import read_by, scenario

END = Rec(b"end")
FENCED = re.compile("fenced|InvalidProducerEpoch|INVALID_PRODUCER_EPOCH", re.IGNORECASE)
"""What each library's error for another producer's epoch has in its text."""
ABORTED = re.compile(f"{FENCED.pattern}|InvalidTxnState|INVALID_TXN_STATE", re.IGNORECASE)
"""The coordinator has moved the epoch on, or, of older libraries, has no transaction."""


def values(client: Client, topic: str, *, committed: bool) -> list[bytes | None]:
    """All values up to `END`, which somebody must have written."""
    found: list[bytes | None] = []
    while not found or found[-1] != END.value:
        following = client.consume(topic, len(found) + 1, committed=committed)
        assert len(following) > len(found), f"only {found}"
        found = [each.value for each in following]
    return found[:-1]


def some(word: str, count: int = 20) -> list[Rec]:
    return [Rec(f"{word}-{n}".encode()) for n in range(count)]


def words(*records: list[Rec]) -> list[bytes | None]:
    return [each.value for part in records for each in part]


def refusal(call: Callable[[], None]) -> str:
    """How the library says that it cannot go on, with what caused it; empty where it can."""
    said: list[str] = []
    try:
        call()
    except Exception as error:  # noqa: BLE001 - each library has errors of its own
        problem: BaseException | None = error
        while problem is not None:
            said.append(repr(problem))
            problem = problem.__cause__
    return " from ".join(said)


@scenario("transactions commit")
def commits(client: Client, topic: str) -> None:
    client.create_topic(topic, 2, {})
    producer = client.transactions(topic)
    for word in ("a", "b", "c"):
        producer.begin()
        producer.send(topic, some(word))
        producer.send(topic, some(word), partition=1)
        producer.commit()
    producer.close()
    client.produce(topic, [END])
    expected = words(some("a"), some("b"), some("c"))
    assert values(client, topic, committed=True) == expected
    assert len(client.consume(topic, 60, partition=1, committed=True)) == 60


@scenario("transactions abort")
def aborts(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    producer = client.transactions(topic)
    for word, commit in (("a", True), ("b", False), ("c", True), ("d", False)):
        producer.begin()
        producer.send(topic, some(word))
        if commit:
            producer.commit()
        else:
            producer.abort()
    producer.close()
    client.produce(topic, [END])
    assert values(client, topic, committed=True) == words(some("a"), some("c"))
    everything = words(*(some(word) for word in "abcd"))
    assert values(client, topic, committed=False) == everything


@scenario("consume, transform, produce")
def copies(client: Client, topic: str) -> None:
    """The offsets move with the transactions that commit, and with no other."""
    target, group = f"{topic}-out", f"g-{uuid.uuid4()}"
    client.create_topic(topic, 1, {})
    client.create_topic(target, 1, {})
    client.produce(topic, some("in", 30))
    producer = client.transactions(topic)
    member = client.member(topic, group)
    taken = read_by(member, 30)
    assert [each.offset for each in taken] == list(range(30))
    for upto, commit in ((10, True), (20, False), (30, True)):
        part = taken[upto - 10 : upto]
        producer.begin()
        producer.send(target, [Rec(b"out " + (each.value or b"")) for each in part])
        producer.send_offsets(member, topic, {0: upto})
        if commit:
            producer.commit()
        else:
            producer.abort()
        done = 10 if upto < 30 else 30
        assert settled(client, group, topic, done), client.committed(group, topic)
    member.close()
    producer.close()
    client.produce(target, [END])
    kept = taken[:10] + taken[20:]
    assert values(client, target, committed=True) == [b"out " + (r.value or b"") for r in kept]


def settled(client: Client, group: str, topic: str, offset: int) -> bool:
    """The markers follow the answer: a commit is to be read soon after it."""
    deadline = time.monotonic() + 20
    while client.committed(group, topic) != {0: offset}:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@scenario("zombie is fenced")
def fences(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    zombie = client.transactions(topic)
    zombie.begin()
    zombie.send(topic, some("left open"))
    fresh = client.transactions(topic)

    def go_on() -> None:
        zombie.send(topic, some("zombie"))
        zombie.commit()

    assert FENCED.search(said := refusal(go_on)), said
    fresh.begin()
    fresh.send(topic, some("fresh"))
    fresh.commit()
    fresh.close()
    zombie.close()
    client.produce(topic, [END])
    assert values(client, topic, committed=True) == words(some("fresh"))


@scenario("transaction times out")
def times_out(client: Client, topic: str) -> None:
    """What is left open is aborted, and holds no reader up any longer."""
    client.create_topic(topic, 1, {})
    slow = client.transactions(topic, timeout_ms=2000)
    slow.begin()
    slow.send(topic, some("slow"))
    client.produce(topic, [END])
    assert values(client, topic, committed=True) == []
    assert ABORTED.search(said := refusal(slow.commit)), said
    slow.close()

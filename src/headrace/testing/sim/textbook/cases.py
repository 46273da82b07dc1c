"""Textbook cases of replication: each applies one event to a few replicas and records the steps.

They correspond to the drawings with HW and LEO in articles about Kafka. Cases about Kafka before
0.11, which truncated to the high watermark, exist twice: as it was, and as it is.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import permutations
from types import MappingProxyType
from typing import Any, NamedTuple

from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.textbook import send_modes
from headrace.testing.sim.textbook.before_epochs import before_leader_epochs
from headrace.testing.sim.textbook.cluster import (
    A,
    B,
    C,
    Settings,
    TextbookCluster,
    held_messages,
    until,
)

SLOW = 300
"""Factor on a link's delay, where intermediate steps are to be visible."""
CHECKPOINT_MS = 50
"""Interval of high watermark checkpoints, in cases where a replica must remember its own."""


async def high_watermark(two: TextbookCluster) -> None:
    """Write while no Fetch waits at the leader: two Fetches move first the log end, then the HW."""
    await two.begin()
    two.slow(B, A, SLOW)
    two.slow(A, B, 0.1 * SLOW)
    await asyncio.sleep(1)
    two.trace.note("no Fetch of B waits at A")
    await two.write(b"message 0")
    await until(lambda: two.marks() == {(1, 1)})
    two.trace.note("consumers can read message 0 from both")


async def high_watermark_waiting_fetch(two: TextbookCluster) -> None:
    """Write while the follower's Fetch waits at the leader, which answers it at once."""
    await two.begin()
    two.slow(A, B, 0.1 * SLOW)
    await asyncio.sleep(1.2)
    two.trace.note("a Fetch of B waits at A")
    await two.write(b"message 0")
    await until(lambda: two.marks() == {(1, 1)})
    two.trace.note("consumers can read message 0 from both")


async def isr_shrink(three: TextbookCluster) -> None:
    """Stop C's fetches: the HW stays at C's log end until C has left the ISR."""
    await three.begin(min_insync_replicas="1")
    for number in range(2):
        await three.write(b"message %d" % number)
    await until(lambda: three.marks() == {(2, 2)})
    three.cut(A, C)
    three.trace.note("nothing of A reaches C any more")
    await three.write(b"message 2", acks=1)
    await until(lambda: three.mark(B)[1] == 3)
    await asyncio.sleep(0.75 * LAG_SECONDS)
    three.cut(A, B)
    three.trace.note("nor B")
    await three.write(b"message 3", acks=1)
    await until(lambda: three.in_sync(A) == {A, B})
    three.trace.note("B, the slowest in sync, holds the high watermark now")
    three.mend(A, B)
    await until(lambda: three.mark(A) == three.mark(B) == (4, 4))
    three.mend(A, C)
    await until(lambda: three.marks() == {(4, 4)} and C in three.in_sync(A))
    three.trace.note("C has caught up to the high watermark, and is in sync again")


async def _acknowledged_before_the_follower_knows(two: TextbookCluster) -> None:
    """Acknowledge message 1 on both replicas while B's high watermark is still 1."""
    await two.begin(min_insync_replicas="1")
    await two.write(b"message 0")
    await until(lambda: two.mark(B) == (1, 1))
    two.slow(A, B, SLOW)
    await two.write(b"message 1")
    await until(lambda: two.mark(A) == (2, 2) and two.mark(B) == (1, 2))


async def loss(two: TextbookCluster) -> None:
    """Restart B's following of A, then fail A: B leads with the records it has."""
    await _acknowledged_before_the_follower_knows(two)
    two.cut(A, B)
    await two.reorder((B, A))
    await until(lambda: two.epoch(B) == two.epoch(A) > 0)
    two.trace.note("B begins to follow A anew, and A's answers reach it no more")
    await asyncio.sleep(0.5)
    falling = two.fail(A)
    await until(lambda: two.leads(B))
    await falling
    two.mend(A, B)
    await two.write(b"message 2")
    await two.start(A)
    await until(lambda: len(two.marks()) == 1 and two.mark(A)[0] == two.mark(A)[1])
    two.trace.note(held_messages(two))


async def old_leader_truncates(two: TextbookCluster, *, written: bool = True) -> None:
    """Append on A with acks=1 a record that B never gets, and fail A, which truncates it later."""
    await _acknowledged_before_the_follower_knows(two)
    two.slow(A, B, 1)
    await until(lambda: two.mark(B) == (2, 2))
    two.cut(A, B)
    two.trace.note("nothing of A reaches B any more")
    await two.write(b"A's own", acks=1)
    await until(lambda: two.log(A).flushed_offset == 3)
    falling = two.fail(A)
    await until(lambda: two.leads(B))
    if written:
        await two.write(b"B's own")
    await falling
    two.mend(A, B)
    await two.start(A)
    end = 3 if written else 2
    await until(lambda: two.marks() == {(end, end)})
    two.trace.note(held_messages(two))


async def f_failures(three: TextbookCluster) -> None:
    """Fail two of three replicas in turn: the last one has every acknowledged record."""
    await three.begin(min_insync_replicas="1")
    for source, target in permutations(three.replicas, 2):
        three.slow(source, target, 0.5 * SLOW)  # so that a failure before a copy is visible
    await three.write(b"message 0")
    falling = []
    for number, (broker, successor) in enumerate(((A, B), (B, C)), start=1):
        falling.append(three.fail(broker))
        await until(partial(three.leads, successor))
        await three.write(b"message %d" % number)
    three.trace.note("two of three have failed, and nothing is lost")
    await asyncio.gather(*falling)
    for broker in (A, B):
        await three.start(broker)
    await until(lambda: three.marks() == {(3, 3)} and len(three.in_sync(C)) == 3)
    three.trace.note(held_messages(three))


async def min_insync_replicas(three: TextbookCluster) -> None:
    """Write to the last in-sync replica with min.insync.replicas=2: writes are refused.

    Records appended by then are not lost, and are committed once another replica is in sync again.
    """
    await three.begin(min_insync_replicas="2")
    await three.write(b"message 0")
    await until(lambda: three.marks() == {(1, 1)})
    for broker in (B, C):
        three.cut(A, broker)
    three.trace.note("nothing of A reaches B and C any more")
    await three.write(b"message 1", patient=False)
    await until(lambda: three.in_sync(A) == {A})
    await three.write(b"message 2", patient=False)
    for broker in (B, C):
        three.mend(A, broker)
    await until(lambda: three.marks() == {(2, 2)})
    three.trace.note(held_messages(three))


async def _acknowledged_by_one(two: TextbookCluster, *, unclean: bool) -> "asyncio.Task[None]":
    """Put B out of sync, acknowledge message 1 on A alone, and fail A."""
    allowed = "true" if unclean else "false"
    await two.begin(min_insync_replicas="1", unclean_leader_election_enable=allowed)
    await two.write(b"message 0")
    await until(lambda: two.marks() == {(1, 1)})
    two.cut(A, B)
    two.trace.note("nothing of A reaches B any more")
    await two.write(b"message 1")
    return two.fail(A)


async def all_isr_down(two: TextbookCluster) -> None:
    """Fail the last in-sync replica: no leader until it is back, and nothing is lost."""
    falling = await _acknowledged_by_one(two, unclean=False)
    await until(lambda: two.leader() < 0)
    two.trace.note("B lacks message 1, and may not lead")
    await falling
    two.mend(A, B)
    await two.start(A)
    await until(lambda: two.marks() == {(2, 2)})
    two.trace.note(held_messages(two))


async def unclean_election(two: TextbookCluster) -> None:
    """Elect a replica out of sync (unclean.leader.election.enable): records it lacks are lost."""
    falling = await _acknowledged_by_one(two, unclean=True)
    await until(lambda: two.leads(B))
    two.trace.note("B leads without message 1")
    await two.write(b"message 2")
    await falling
    two.mend(A, B)
    await two.start(A)
    await until(lambda: two.marks() == {(2, 2)})
    two.trace.note(held_messages(two))


async def zombie_leader(two: TextbookCluster) -> None:
    """Pause leader A with a record that B lacks: B leads, and A resumes as if it still led.

    A cannot acknowledge writes with acks=all, and truncates the record that it alone has.
    """
    await two.begin(min_insync_replicas="1")
    await two.write(b"message 0")
    await until(lambda: two.marks() == {(1, 1)})
    two.cut(A, B)
    two.trace.note("nothing of A reaches B any more")
    waiting = asyncio.ensure_future(two.write(b"message 1", patient=False))
    await until(lambda: two.mark(A) == (1, 2))
    two.pause(A)
    two.trace.note("A stands still")
    await until(lambda: two.leads(B))
    await two.write(b"message 2")
    two.resume(A)
    two.mend(A, B)
    two.trace.note("A goes on, and believes that it leads" if two.leads(A) else "A goes on")
    await waiting
    await until(lambda: two.marks() == {(2, 2)})
    two.trace.note(held_messages(two))


async def lagging_join(three: TextbookCluster) -> None:
    """Cut the power of A and B: B leads again, with an older high watermark.

    C lacks committed records, and B fails again. C must not join the ISR before it has them.
    """
    await three.begin(min_insync_replicas="2")
    await three.write(b"message 0")
    await until(lambda: three.mark(C) == three.mark(B) == (1, 1))
    for sender in (A, B):
        three.cut(sender, C)
    await three.write(b"message 1")  # acknowledged when C has left the ISR
    for sender in (A, B):
        three.mend(sender, C, anew=True)
    falling = [three.fail(A), three.fail(B)]
    await asyncio.gather(*falling)
    three.slow(B, C, 500)  # C's fetches arrive soon, and B's answers late
    await three.start(B)
    await until(lambda: three.leads(B))
    await until(lambda: C in three.in_sync(B) or three.mark(C) == (2, 2))
    three.trace.note("C is in sync")
    await three.fail(B)
    three.slow(B, C, 1)
    for broker in (A, B):
        await three.start(broker)
    await until(lambda: three.marks() in ({(2, 2)}, {(1, 1)}))
    three.trace.note(held_messages(three))


# --- the table ----------------------------------------------------------------------------------

Play = Callable[[TextbookCluster], Coroutine[Any, Any, None]]


class Case(NamedTuple):
    """A case of `headrace trace`."""

    shows: str
    play: Play
    replicas: tuple[BrokerId, ...] = (A, B)
    settings: Settings = MappingProxyType({})
    around: Callable[[], AbstractContextManager[None]] = nullcontext


_SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    # A case waits for the end of a session, as it would with Kafka.
    "early.leader.election.enable": "false",
}
"""Settings of all cases: the leader changes only where a case changes it."""
_REMEMBERS = {"replica.high.watermark.checkpoint.interval.ms": str(CHECKPOINT_MS)}
CASES: dict[str, Case] = {
    "high-watermark": Case(
        "a message, two Fetches of the follower: when LEO and HW move on both",
        high_watermark,
        settings={"replica.fetch.wait.max.ms": "1"},
    ),
    "high-watermark-waiting-fetch": Case(
        "the same message where a Fetch waits for it at the leader (as it mostly does)",
        high_watermark_waiting_fetch,
    ),
    "isr-shrink": Case(
        "a slow follower holds the HW back, leaves the ISR, catches up and is back in it",
        isr_shrink,
        (A, B, C),
    ),
    "min-insync-replicas": Case(
        "what too few would hold is refused; what was appended by then is not lost",
        min_insync_replicas,
        (A, B, C),
    ),
    "f-failures": Case(
        "f+1 replicas, f failures: the last one has all that was acknowledged",
        f_failures,
        (A, B, C),
    ),
    "loss": Case(
        "a follower restarts before it knows the HW, then leads: nothing is lost",
        loss,
    ),
    "loss-before-epochs": Case(
        "loss with truncation to the HW, as before Kafka 0.11: a message is lost",
        loss,
        around=before_leader_epochs,
    ),
    "divergence": Case(
        "as loss, and the old leader remembers its HW: the replicas are equal",
        loss,
        settings=_REMEMBERS,
    ),
    "divergence-before-epochs": Case(
        "divergence with truncation to the HW, as before Kafka 0.11: the replicas differ",
        loss,
        settings=_REMEMBERS,
        around=before_leader_epochs,
    ),
    "old-leader-truncates": Case(
        "an old leader cuts what it alone appended, though acks=1 had acknowledged it",
        old_leader_truncates,
    ),
    "old-leader-only-truncates": Case(
        "as old-leader-truncates, and the new leader has written nothing since",
        partial(old_leader_truncates, written=False),
    ),
    "all-isr-down": Case(
        "the last in sync fails: nobody leads until it is back, nothing is lost",
        all_isr_down,
    ),
    "unclean-election": Case(
        "unclean.leader.election.enable=true: one leads that lacks a message, which is lost",
        unclean_election,
    ),
    "zombie-leader": Case(
        "a paused leader wakes up when another leads: it acknowledges nothing, and truncates",
        zombie_leader,
    ),
    "async-master": Case(
        "brokerRole=ASYNC_MASTER is acks=1: SEND_OK before a slave has the message, which is lost",
        send_modes.async_master,
    ),
    "sync-master": Case(
        "brokerRole=SYNC_MASTER is acks=all: a lost answer is sent again, which makes two copies",
        send_modes.lost_answer,
    ),
    "async-flush": Case(
        "flushDiskType=ASYNC_FLUSH: SEND_OK before the flush, and a power cut takes the message",
        send_modes.async_flush,
        (A,),
        {"log.flush.on.ack": "false"},
    ),
    "lagging-join": Case(
        "a new leader's HW lags: who lacks committed messages is not in sync by it",
        lagging_join,
        (A, B, C),
    ),
}
"""The cases by name."""


def play_case(case: Case, seed: int) -> TextbookCluster:
    """Play a case and return its cluster with the trace. Raises NeverHappens."""
    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed, {**_SETTINGS, **case.settings})
    played = TextbookCluster(cluster, case.replicas)

    async def whole() -> None:
        watching = loop.create_task(played.trace.watch())
        await case.play(played)
        if not watching.cancel():
            watching.result()

    with case.around():
        loop.play(whole())
    return played

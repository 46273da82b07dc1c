"""Textbook cases in the words of clients that name roles and flush types, not acks.

    SYNC_MASTER    acks=all: the master answers when all in-sync slaves have the message
    ASYNC_MASTER   acks=1: it does not wait for them
    ASYNC_FLUSH    log.flush.on.ack=false: it does not wait for its own disk either

SEND_OK is the producer's acknowledgement. A master is the leader, a slave a follower.
"""

import asyncio

from headrace.testing.sim.textbook.cluster import (
    WRITER,
    A,
    B,
    TextbookCluster,
    held_messages,
    until,
)


async def async_master(two: TextbookCluster) -> None:
    """Give SEND_OK for a message that the slave B does not have, and fail the master A."""
    await two.begin(min_insync_replicas="1")
    await two.write(b"message 0")
    await until(lambda: two.marks() == {(1, 1)})
    two.cut(A, B)
    two.trace.note("the master A does not reach the slave B any more")
    await two.write(b"message 1", acks=1)
    two.trace.note('SEND_OK for "message 1", ASYNC_MASTER')
    await until(lambda: two.log(A).flushed_offset == 2)
    falling = two.fail(A)
    await until(lambda: two.leads(B))
    await falling
    two.mend(A, B)
    await two.start(A)
    await until(lambda: two.marks() == {(1, 1)})
    two.trace.note(f"message 1 is lost. {held_messages(two)}")


async def lost_answer(two: TextbookCluster) -> None:
    """Store a message on both replicas, and fail A before its answer reaches the producer."""
    await two.begin(min_insync_replicas="1")
    waiting = asyncio.ensure_future(two.write(b"message 0"))
    await until(lambda: two.mark(A) == (0, 1))
    two.cut(A, WRITER)
    two.trace.note("nothing of A reaches the producer any more")
    await until(lambda: two.mark(A) == (1, 1))
    falling = two.fail(A)
    await waiting
    await falling
    await two.start(A)
    await until(lambda: two.marks() == {(2, 2)})
    two.trace.note(f"one UNIQ_KEY twice: {held_messages(two)}")


async def async_flush(single: TextbookCluster) -> None:
    """Acknowledge a message that is appended and not flushed, and cut A's power."""
    await single.begin()
    await single.write(b"message 0")
    single.trace.note(f"SEND_OK, ASYNC_FLUSH: flushed up to {single.log(A).flushed_offset}")
    await single.fail(A)
    await single.start(A)
    await until(lambda: single.leads(A))
    single.trace.note(held_messages(single))

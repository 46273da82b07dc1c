"""The queues of a run, and the messages that each of them has to deliver.

Every publish goes to one of two fanout exchanges, with the number of the message as its body:

    spread -> order (one consumer), shared (two, that requeue some), single (single active consumer)
    mixed  -> reject -> rejected (what its consumer rejects)
              ttl -> expired (all, as ttl has no consumer)
              short -> dropped (all but the last, as short has no consumer until the end)
              plain (a classic queue)
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.wire.amqp.field_table import FieldTable

SPREAD, MIXED = "spread", "mixed"
EXCHANGES = (SPREAD, MIXED)
QUORUM: FieldTable = {"x-queue-type": "quorum"}
TTL_SECONDS = 2.0
SHORT_LENGTH = 200
REJECT_EACH = 10
REQUEUE_EACH = 50


class Queue(NamedTuple):
    """A durable queue, its consumers and what is promised of it."""

    name: str
    arguments: FieldTable
    exchange: str = ""
    """The exchange that it is bound to; empty: none."""
    consumers: int = 1
    """0: it is consumed when the faults are over."""
    in_order: bool = False
    """The messages of each publisher's connection are delivered in the order of their publishes."""
    single_active: bool = False
    rejects: int = 0
    """Its consumer rejects each message whose number this divides."""
    requeues: int = 0
    """Its consumers requeue each such message once."""
    dead_letters_of: str = ""
    """The exchange whose messages come to it as dead letters, perhaps twice after a fault."""
    divisor: int = 1
    """It has only messages whose numbers this divides."""


def _dead_letters_to(queue: str, **arguments: int) -> FieldTable:
    """Arguments of a queue whose dead letters are stored before they leave it."""
    return {
        **QUORUM, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
        "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
        **{name.replace("_", "-"): value for name, value in arguments.items()},
    }  # fmt: skip


SINGLE_ACTIVE: FieldTable = {**QUORUM, "x-single-active-consumer": True}
SHORT: FieldTable = {
    **QUORUM, "x-max-length": SHORT_LENGTH,
    "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dropped",
}  # fmt: skip
QUEUES = (
    Queue("order", QUORUM, SPREAD, in_order=True),
    Queue("shared", QUORUM, SPREAD, consumers=2, requeues=REQUEUE_EACH),
    Queue("single", SINGLE_ACTIVE, SPREAD, consumers=2, in_order=True, single_active=True),
    Queue("reject", _dead_letters_to("rejected"), MIXED, rejects=REJECT_EACH, in_order=True),
    Queue("ttl", _dead_letters_to("expired", x_message_ttl=int(1000 * TTL_SECONDS)), MIXED, 0),
    Queue("short", SHORT, MIXED, consumers=0),
    Queue("plain", {}, MIXED, in_order=True),
    Queue("rejected", QUORUM, dead_letters_of=MIXED, divisor=REJECT_EACH),
    Queue("expired", QUORUM, dead_letters_of=MIXED),
    Queue("dropped", QUORUM, dead_letters_of=MIXED),
)
BY_NAME = {queue.name: queue for queue in QUEUES}


TTL_EXPIRED = "expired"
"""The queue of messages that were not older than `TTL_SECONDS` before."""


class Claim(NamedTuple):
    """Each confirmed message of an exchange is delivered by at least one of these queues."""

    exchange: str
    queues: tuple[str, ...]
    holds_for: Callable[[int], bool] = lambda _: True


CLAIMS = (
    Claim(SPREAD, ("order",)),
    Claim(SPREAD, ("shared",)),
    Claim(SPREAD, ("single",)),
    Claim(MIXED, ("reject",)),
    Claim(MIXED, ("rejected",), lambda number: number % REJECT_EACH == 0),
    Claim(MIXED, ("expired",)),
    Claim(MIXED, ("short", "dropped")),
    Claim(MIXED, ("plain",)),
)

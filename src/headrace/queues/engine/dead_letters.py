"""Dead letters: why a message died, what its headers say of it, and where it must not go again.

The rules are those of RabbitMQ 4.0 (its documentation, "Dead Letter Exchanges"). `x-death` counts
as history only where the broker wrote it: one that a client published is replaced, as there.

A dead letter is given out before it is settled, and settled when its target holds it: a kill in
between doubles it, and loses nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from headrace.queues.engine.priority_level import MessageLevel
from headrace.wire.amqp.content import Message


class DeathReason(Enum):
    """Why a message died, as `x-death` has it."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class DeadLetter(NamedTuple):
    """A message that died. It is settled where it was once its target holds it."""

    reason: DeathReason
    level: MessageLevel | None
    """Where it is kept; None: nowhere, its publish was refused."""
    position: int
    message: Message | None
    """None: not read yet."""


def with_messages(letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Read the messages of dead letters; returns those that have theirs, and the other letters."""
    found: list[DeadLetter] = []
    left: list[DeadLetter] = []
    for letter in letters:
        if letter.message is None and letter.level is not None:
            _, messages = letter.level.store.read(letter.position, 1)
            if not messages:
                left.append(letter)
                continue
            letter = letter._replace(message=messages[0])
        found.append(letter)
    return found, left


class DyingMessage(NamedTuple):
    """What is to be known of a message to write its death down."""

    exchange: str
    """The one it was published to, or dead-lettered by, last."""
    routing_keys: Sequence[str]
    """Those it was routed by last: CC's too, BCC's not."""
    expiration: str | None
    """The property that is taken off."""
    headers: Mapping[str, object]
    has_died: bool
    """The broker dead-lettered it before, so `x-death` is the broker's."""


class NumberKinds(NamedTuple):
    """How numbers are marked that a field table would else write as 32 bits."""

    long: Callable[[int], int]
    timestamp: Callable[[int], int]


def routing_keys_after(override: str | None, routing_keys: Sequence[str]) -> list[str]:
    """Return the keys a dead letter is routed by: the queue's own, else those it came with.

    It is routed by these alone. The CC header stays what it was, also where it has no say any more.
    """
    return list(routing_keys) if override is None else [override]


def death_headers(
    dying: DyingMessage,
    queue: str,
    reason: DeathReason,
    *,
    wall_seconds: int,
    kinds: NumberKinds,
) -> dict[str, object]:
    """Return the headers to put: `x-death`, the newest first, and first and last deaths."""
    deaths = _deaths(dying) if dying.has_died else []
    earlier = next((death for death in deaths if _is_of(death, queue, reason)), None)
    put: dict[str, object] = {}
    if earlier is None:
        death: dict[str, object] = {
            "count": kinds.long(1),
            "reason": reason.value,
            "queue": queue,
            "time": kinds.timestamp(wall_seconds),
            "exchange": dying.exchange,
            "routing-keys": list(dying.routing_keys),
        }
        if dying.expiration is not None:
            death["original-expiration"] = dying.expiration
    else:
        # Time, exchange and keys stay those of the first death of this kind.
        count = earlier.get("count")
        death = {**earlier, "count": kinds.long((count if isinstance(count, int) else 0) + 1)}
        deaths = [other for other in deaths if other is not earlier]
    put["x-death"] = [death, *deaths]
    told = ["x-last-death"] if dying.has_died else ["x-first-death", "x-last-death"]
    for name in told:
        put[f"{name}-reason"] = reason.value
        put[f"{name}-queue"] = queue
        put[f"{name}-exchange"] = dying.exchange
    return put


def is_cycle(target_queue: str, deaths: object, reason: DeathReason) -> bool:
    """Tell whether a dead letter would come back to a queue though no client ever rejected it.

    `deaths`: `x-death` with the present death. Such a message is dropped, or it would go round
    for ever; where a client rejects it on the way, he may end that.
    """
    if reason is DeathReason.REJECTED or not isinstance(deaths, list):
        return False
    for death in deaths:
        if death.get("reason") == DeathReason.REJECTED.value:
            return False
        if death.get("queue") == target_queue:
            return True
    return False


def _deaths(dying: DyingMessage) -> list[Mapping[str, object]]:
    deaths = dying.headers.get("x-death")
    if not isinstance(deaths, list):
        return []
    return [death for death in deaths if isinstance(death, Mapping)]


def _is_of(death: Mapping[str, object], queue: str, reason: DeathReason) -> bool:
    return death.get("queue") == queue and death.get("reason") == reason.value

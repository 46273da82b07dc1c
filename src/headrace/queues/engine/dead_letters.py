"""Dead letters: the reason, the `x-death` header, and the detection of cycles.

The rules are those of RabbitMQ 4.0 (its documentation, "Dead Letter Exchanges"). An `x-death` that
a client published is no history: it is replaced, as RabbitMQ does. A dead letter is published
before it is settled, and settled when its targets have stored it: a crash in between duplicates it
and never loses it.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from headrace.queues.engine.priority_level import MessageLevel
from headrace.wire.amqp.content import Message


class DeathReason(Enum):
    """The reason of a dead letter, as `x-death` names it."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class DeadLetter(NamedTuple):
    """A message that is dead-lettered; settled in its queue once its targets have stored it."""

    reason: DeathReason
    level: MessageLevel | None
    """The priority level that stores the message; None: its publish was refused."""
    position: int
    message: Message | None
    """The message; None: not read from the store yet."""


def with_messages(letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Read the messages of dead letters; return letters with a message, and those still read."""
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
    """The properties of a message that its `x-death` entry is made of."""

    exchange: str
    """The exchange it was last published to, by a client or as a dead letter."""
    routing_keys: Sequence[str]
    """The keys it was last routed by, with those of CC and without those of BCC."""
    expiration: str | None
    """The `expiration` property in ms, which a dead letter loses; None: not set."""
    headers: Mapping[str, object]
    has_died: bool
    """Whether the broker dead-lettered the message before, so that `x-death` is the broker's."""


class NumberKinds(NamedTuple):
    """Constructors of numbers that a field table would otherwise encode with 32 bits."""

    long: Callable[[int], int]
    timestamp: Callable[[int], int]


def routing_keys_after(override: str | None, routing_keys: Sequence[str]) -> list[str]:
    """Return a dead letter's routing keys: the queue's dead letter routing key, else its own.

    The CC header stays unchanged, also where `override` replaces its keys.
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
    """Return the headers to set: `x-death`, newest entry first, and first and last deaths.

    `wall_seconds` is the time of the death in seconds since the epoch.
    """
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
        # Time, exchange and keys stay those of the first death with this queue and reason.
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
    """Tell whether a dead letter returns to a queue it died in without any rejection on the way.

    `deaths` is `x-death` with the present death. Such a message is dropped, as it would circulate
    without end. A client's rejection counts as a way out of the cycle.
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

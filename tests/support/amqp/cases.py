"""Cases of durable queues in which each two features meet, and what is known of a message."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

from headrace.wire.amqp.properties import header_value
from tests.support.queues.lives import Arguments, BrokerLife

CLOCK_SECONDS = 0.002
"""The log has expiries by whole milliseconds."""
LENGTH_MAX, LENGTH_BYTES_MAX, DELIVERY_LIMIT, TTL_MS = 3, 16, 1, 1000
RETENTION_SECONDS = 2
"""How long is kept what is settled, where it is."""

FEATURES: dict[str, tuple[str, ...]] = {
    "kind": ("classic", "priorities", "quorum"),
    "ttl": ("none", "queue", "message"),
    "limit": ("none", "count", "bytes"),
    "overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "dead letters": ("none", "wanted"),
    "persistence": ("all", "some"),
    "taken by": ("get", "consumer", "consumer without ack"),
    "settled": ("goes", "is kept"),
}
Case = dict[str, str]


def pairwise() -> list[Case]:
    """Cases in which each two values of two features meet: the next is who brings most new ones."""
    names = list(FEATURES)
    all_cases = [dict(zip(names, values, strict=True)) for values in product(*FEATURES.values())]
    left = {pair for case in all_cases for pair in pairs_of(case)}
    chosen: list[Case] = []
    while left:
        best = max(all_cases, key=lambda case: len(left.intersection(pairs_of(case))))
        chosen.append(best)
        left.difference_update(pairs_of(best))
    return chosen


def pairs_of(case: Case) -> set[tuple[tuple[str, str], ...]]:
    return set(combinations(case.items(), 2))


TRIED_TOO_OFTEN = ("quorum", "none", "none", "drop-head", "wanted", "all", "get", "goes")
"""Three that must meet: what is given back too often is a dead letter."""
PAIRWISE = [*pairwise(), dict(zip(FEATURES, TRIED_TOO_OFTEN, strict=True))]


def arguments_of(case: Case) -> Arguments:
    """What the queue is declared with."""
    limits = {
        "count": {"x-max-length": LENGTH_MAX},
        "bytes": {"x-max-length-bytes": LENGTH_BYTES_MAX},
    }
    kinds: dict[str, Arguments] = {
        "priorities": {"x-max-priority": 2},
        "quorum": {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT},
    }
    arguments: Arguments = {"x-overflow": case["overflow"]}
    arguments |= kinds.get(case["kind"], {}) | limits.get(case["limit"], {})
    if case["ttl"] == "queue":
        arguments["x-message-ttl"] = TTL_MS
    if case["dead letters"] == "wanted":
        arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    if case["settled"] == "is kept":
        arguments["x-headrace-retention"] = f"{RETENTION_SECONDS}s"
    return arguments


@dataclass
class Known:
    """What was done with a message, and so what may have become of it."""

    number: int
    priority: int
    persistent: bool
    expires_at: float | None
    published_at: float = 0.0
    confirmed: bool = False
    stored: bool = False
    """It was confirmed before it was purged: else it may not have come to the log."""
    given: bool = False
    done: bool = False
    """Acknowledged, purged or rejected in this life: it may have left the queue."""
    wanted: bool = True
    """Nobody has acknowledged or purged it."""
    rejected: bool = False
    returns: int = 0
    returns_durable: int = 0
    tried_too_often: bool = False
    gone: bool = False
    """It has left the queue, and that is durable."""

    def end(self) -> None:
        """Note that nobody wants it any more."""
        self.done, self.wanted = True, False

    def may_have_died(self, now: float, *, full: bool) -> set[str]:
        """Return the reasons for which it may be dead."""
        expired = self.expires_at is not None and self.expires_at <= now + CLOCK_SECONDS
        reasons = {
            "expired": expired,
            "rejected": self.rejected,
            "delivery_limit": self.tried_too_often,
            "maxlen": full,
        }
        return {reason for reason, may_be in reasons.items() if may_be}


class Left(NamedTuple):
    """A message that is in a queue."""

    number: int
    redelivered: bool
    returns: int
    died_of: str


def left_in(copy: BrokerLife, name: str) -> list[Left]:
    """Get all there is."""
    found = []
    while (delivery := copy.get(name)) is not None:
        _, _, message, redelivered, returns = delivery
        deaths = header_value(message.header, "x-death")
        died_of = ""
        if isinstance(deaths, list):
            assert [(death["queue"], int(death["count"])) for death in deaths] == [("q", 1)]
            died_of = deaths[0]["reason"]
        number = int(message.body.split(b".")[0])
        found.append(Left(number, redelivered, returns, died_of))
    return found


def not_kept(life: BrokerLife, all_known: Iterable[Known]) -> list[Known]:
    """Return what Kafka's readers are to find in the topic of `q`, and do not."""
    if not life.queue().settings.keeps_settled:
        return []
    there = {int(value.split(b".")[0]) for value in life.records()}
    return [
        known
        for known in all_known
        if known.stored
        and known.published_at + RETENTION_SECONDS > life.now
        and known.number not in there
    ]

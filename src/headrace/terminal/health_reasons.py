"""Why a cluster is not healthy, in words: `headrace cluster health`."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headrace.client.cluster_health import Health, PartitionRow, health_of, rows_of
from headrace.client.standing import Seen
from headrace.terminal.output import counted

NAMED_MAX = 5
"""The most partitions that one reason names; `cluster partitions` lists all."""


class Reason(NamedTuple):
    """A reason why the cluster is not healthy."""

    code: str
    """A fixed word for scripts.

    One of `no_controller`, `store_unanswered`, `brokers_missing`, `brokers_unanswered`, `offline`,
    `under_replicated`, `under_min_isr`, `damaged`, `directories_failed` and `directories_low`.
    """
    message: str


def reasons_of(seen: Seen) -> list[Reason]:
    """Return why a cluster is not healthy; empty if it is (`Health.is_healthy`)."""
    known = seen.known
    rows = rows_of(known, sorted(known.topics), {}, seen=seen)
    reasons = [*_of_brokers(health_of(seen)), *_of_answers(seen)]
    for code, text, wrong in (
        (
            "offline",
            "without a leader, so records cannot be read or written:",
            lambda row: row.is_offline,
        ),
        (
            "under_replicated",
            "with a replica that is not in sync:",
            lambda row: row.is_under_replicated and not row.is_offline,
        ),
        (
            "damaged",
            "with a replica that is damaged or whose directory failed (see its broker's log):",
            lambda row: row.is_damaged(known),
        ),
    ):
        if message := _of_partitions(rows, text, wrong):
            reasons.append(Reason(code, message))
    return [*reasons, *_of_refusals(rows)]


def _of_brokers(found: Health) -> Sequence[Reason]:
    reasons = []
    if found.controller < 0:
        reasons.append(Reason("no_controller", "no controller: leaders cannot be elected"))
    if found.missing:
        named = ", ".join(map(str, found.missing))
        text = f"{counted(len(found.missing), 'broker')} missing that hold replicas: {named}"
        reasons.append(Reason("brokers_missing", text))
    return reasons


def _of_answers(seen: Seen) -> Iterator[Reason]:
    """Yield reasons from the brokers' answers, or from missing ones."""
    if without := seen.without_store:
        more = ", ".join(str(standing.broker) for standing in without[1:])
        others = f", nor {'broker' if len(without) == 2 else 'brokers'} {more}" if more else ""
        text = (
            f"{without[0].refusal}{others}: check that it runs and that brokers can connect to it"
        )
        yield Reason("store_unanswered", text)
    if unanswered := seen.unanswered:
        named = "; ".join(f"{found.broker} ({found.failure})" for found in unanswered)
        verb = "does" if len(unanswered) == 1 else "do"
        text = f"{counted(len(unanswered), 'broker')} {verb} not answer: {named}"
        yield Reason("brokers_unanswered", text)


def _of_refusals(rows: Sequence[PartitionRow]) -> Iterator[Reason]:
    """Yield a reason per pair of in-sync and required replicas, where acks=all is refused."""

    def numbers(row: PartitionRow) -> tuple[int, int]:
        return len(row.metadata.isr), row.in_sync_needed

    refusing = [row for row in rows if row.refuses_acks_all]
    for in_sync, needed in sorted(set(map(numbers, refusing))):
        alike = [row for row in refusing if numbers(row) == (in_sync, needed)]
        verb = "refuses" if len(alike) == 1 else "refuse"
        text = f"{verb} acks=all ({in_sync} in sync, min.insync.replicas={needed}):"
        yield Reason("under_min_isr", _of_partitions(alike, text, lambda _: True))


def _of_partitions(
    rows: Sequence[PartitionRow], text: str, wrong: Callable[[PartitionRow], bool]
) -> str:
    names = [f"{row.topic}-{row.metadata.partition}" for row in rows if wrong(row)]
    if not names:
        return ""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{counted(len(names), 'partition')} {text} {' '.join(names[:NAMED_MAX])}{more}"

"""`headrace cluster info` and `health`: facts about a cluster, and why it is not healthy."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.cluster_health import Health, PartitionRow, health_of, rows_of
from headrace.client.log_directories import (
    directories_of,
    low_directories,
)
from headrace.client.standing import Seen, look
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.directory_messages import failed_message, low_message
from headrace.terminal.failure import EXIT_FAILED
from headrace.terminal.output import counted, print_json, print_line, print_table
from headrace.terminal.watching import Watch, shown

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


def info(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> None:  # noqa: B008
    """Show the cluster's id, controller, brokers, and numbers of topics and partitions.

    For example: headrace cluster info -b 127.0.0.1:9092
    """
    with cluster.client() as client:
        seen = run(look(client))
    known, health = seen.known, health_of(seen)
    internal = sum(topic.internal for topic in known.topics.values())
    if json:
        print_json(
            {
                "cluster_id": health.cluster_id,
                "controller": health.controller if health.controller >= 0 else None,
                "brokers": [
                    {
                        "broker": broker,
                        "address": str(address),
                        "rack": known.racks.get(broker),
                    }
                    for broker, address in sorted(known.brokers.items())
                ],
                "topic_count": health.topics,
                "internal_topic_count": internal,
                "partition_count": health.partitions,
                "replica_count": health.replicas,
            }
        )
        return
    print_line(
        f"cluster {health.cluster_id}: {counted(health.brokers, 'broker')},"
        f" {counted(health.topics - internal, 'topic')} and {internal} internal,"
        f" {counted(health.partitions, 'partition')}, {counted(health.replicas, 'replica')}"
    )
    print_table(
        ["BROKER", "ADDRESS", "RACK", "CONTROLLER"],
        [
            [
                broker,
                str(address),
                known.racks.get(broker),
                "yes" if broker == known.controller_id else None,
            ]
            for broker, address in sorted(known.brokers.items())
        ],
    )


def health(
    *,
    watch: Watch = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Report whether the cluster is healthy, with reasons if not; exits with 1 then.

    headrace cluster status has the numbers. For example: headrace cluster health || page-me
    """
    found: list[Reason] = []

    def show() -> None:
        seen = run(look(client))
        found[:] = [*reasons_of(seen), *_of_directories(client, seen.known)]
        if json:
            reasons = [reason._asdict() for reason in found]
            print_json(
                {
                    "cluster_id": seen.known.cluster_id,
                    "healthy": not reasons,
                    "reasons": reasons,
                    "moving_partitions": len(seen.moves),
                }
            )
            return
        print_line("healthy" if not found else "not healthy:")
        for reason in found:
            print_line(f"  {reason.message}")
        if seen.moves:
            print_line(
                f"  {counted(len(seen.moves), 'partition')} being moved:"
                " headrace cluster reassign --list"
            )

    with cluster.client() as client:
        shown(watch, show, parted=not json)
    return EXIT_FAILED if found else 0


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


def _of_directories(client: Client, known: Metadata) -> Sequence[Reason]:
    found = [*directories_of(client, sorted(known.brokers))]
    messages = {
        "directories_failed": failed_message(found),
        "directories_low": low_message(low_directories(client, found)),
    }
    return [Reason(code, message) for code, message in messages.items() if message]


def _of_partitions(
    rows: Sequence[PartitionRow], text: str, wrong: Callable[[PartitionRow], bool]
) -> str:
    names = [f"{row.topic}-{row.metadata.partition}" for row in rows if wrong(row)]
    if not names:
        return ""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{counted(len(names), 'partition')} {text} {' '.join(names[:NAMED_MAX])}{more}"

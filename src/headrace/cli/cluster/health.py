"""`headrace cluster info` and `health`: facts about a cluster, and why it is not healthy."""

from collections.abc import Sequence

from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.cluster_health import health_of
from headrace.client.log_directories import (
    directories_of,
    low_directories,
)
from headrace.client.standing import look
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.directory_messages import failed_message, low_message
from headrace.terminal.failure import EXIT_FAILED
from headrace.terminal.health_reasons import Reason, reasons_of
from headrace.terminal.output import counted, print_json, print_line, print_table
from headrace.terminal.watching import Watch, shown


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


def _of_directories(client: Client, known: Metadata) -> Sequence[Reason]:
    found = [*directories_of(client, sorted(known.brokers))]
    messages = {
        "directories_failed": failed_message(found),
        "directories_low": low_message(low_directories(client, found)),
    }
    return [Reason(code, message) for code, message in messages.items() if message]

"""`headrace cluster`: status, controller, brokers and partitions."""

from collections.abc import Callable, Sequence
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.cluster.health import health, info
from headrace.cli.cluster.migrate import migrate
from headrace.cli.cluster.reassign import elect_leaders, reassign
from headrace.client.admin import replicas
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.client.cluster_health import (
    Logs,
    PartitionRow,
    health_of,
    rows_of,
)
from headrace.client.standing import Seen, look, replica_ends
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import EXIT_FAILED
from headrace.terminal.output import note, print_json, print_line, print_table
from headrace.terminal.partition_choice import check_topic, listed
from headrace.terminal.watching import Watch, shown

app = App(
    name="cluster",
    help="Show the state of a cluster; elect leaders, move partitions; migrate a single"
    " broker to ZooKeeper.",
)

app.command(elect_leaders)
app.command(reassign)
app.command(migrate)
app.command(info)
app.command(health)


@app.command
def status(
    *,
    watch: Watch = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> int:
    """Show the state of the cluster: brokers, controller, partitions with problems.

    Exits with 1 if it is not healthy. For example: headrace cluster status --watch 2
    """
    healthy: list[bool] = []

    def show() -> None:
        healthy[:] = [_show_status(run(look(client)), json=json)]

    with cluster.client() as client:
        shown(watch, show, parted=not json)
    return 0 if all(healthy) else EXIT_FAILED


def _show_status(seen: Seen, *, json: bool) -> bool:
    """Print the state; return whether the cluster is healthy."""
    health = health_of(seen)
    if json:
        print_json(health.as_json())
        return health.is_healthy
    print_line(f"cluster {health.cluster_id}: {'healthy' if health.is_healthy else 'not healthy'}")
    rows: list[tuple[str, str | int]] = [
        ("controller", health.controller if health.controller >= 0 else "none"),
        ("brokers", health.brokers),
        ("brokers missing", listed(health.missing) or "none"),
        ("brokers that do not answer", listed(health.unanswered) or "none"),
        ("brokers that ZooKeeper does not answer", listed(health.without_store) or "none"),
        ("topics", health.topics),
        ("partitions", health.partitions),
        ("replicas", health.replicas),
        ("offline partitions", health.offline),
        ("under-replicated partitions", health.under_replicated),
        ("partitions that refuse acks=all", health.refusing),
        ("partitions not led by the preferred replica", health.not_preferred),
        ("partitions being moved", health.moving),
    ]
    for word, value in rows:
        print_line(f"  {word}: {value}")
    return health.is_healthy


@app.command
def controller(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> None:  # noqa: B008
    """Show which broker is the controller.

    For example: headrace cluster controller --json
    """
    with cluster.client() as client:
        known = run(look(client)).known
    address = known.brokers.get(known.controller_id)
    if json:
        shown = None if address is None else str(address)
        controller_id = None if address is None else known.controller_id
        print_json({"controller": controller_id, "address": shown})
    elif address is None:
        note("no broker is the controller")
    else:
        print_line(f"{known.controller_id} {address}")


@app.command
def brokers(
    *,
    watch: Watch = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Show the live brokers, their leaders and replicas.

    For example: headrace cluster brokers --watch 2
    """
    with cluster.client() as client:
        shown(watch, lambda: _show_brokers(client, json=json), parted=not json)


def _show_brokers(client: Client, *, json: bool) -> None:
    known = run(client.metadata())
    logs = _logs(client, known)
    rows = rows_of(known, sorted(known.topics), logs)
    counts: dict[int, tuple[int, int, int | None]] = {
        broker: (
            sum(row.metadata.leader == broker for row in rows),
            sum(broker in row.metadata.replicas for row in rows),
            sum(log.size for log in logs[broker].values()) if broker in logs else None,
        )
        for broker in known.brokers
    }
    if json:
        print_json(
            [
                {
                    "broker": broker,
                    "address": str(address),
                    "rack": known.racks.get(broker),
                    "controller": broker == known.controller_id,
                    **dict(
                        zip(("leader_count", "replica_count", "bytes"), counts[broker], strict=True)
                    ),
                }
                for broker, address in sorted(known.brokers.items())
            ]
        )
        return
    print_table(
        ["BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "BYTES"],
        [
            [
                broker,
                str(address),
                known.racks.get(broker),
                "yes" if broker == known.controller_id else None,
                *counts[broker],
            ]
            for broker, address in sorted(known.brokers.items())
        ],
    )


_KINDS: tuple[Callable[[PartitionRow], bool], ...] = (
    lambda row: row.is_under_replicated,
    lambda row: row.is_offline,
    lambda row: row.refuses_acks_all,
    lambda row: row.is_elsewhere,
)
"""The predicates of the flags of `partitions`, in the order of the flags."""


@app.command
def partitions(
    *names: str,
    under_replicated: Annotated[
        bool,
        Parameter(
            name=["--under-replicated", "-u"], help="Only those with a replica that is not in sync."
        ),
    ] = False,
    offline: Annotated[bool, Parameter(help="Only those without a leader.")] = False,
    under_min_isr: Annotated[bool, Parameter(help="Only those that refuse acks=all.")] = False,
    not_preferred: Annotated[
        bool,
        Parameter(help="Only those whose leader is not the first replica."),
    ] = False,
    watch: Watch = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Show leader and replicas of partitions, of all topics or of the named ones.

    LAG is the leader's end offset minus the replica's. Several flags show partitions that match
    any of them. For example: headrace cluster partitions --under-replicated --offline
    """

    flags = (under_replicated, offline, under_min_isr, not_preferred)
    wanted = [holds for asked, holds in zip(flags, _KINDS, strict=True) if asked]

    def show(client: Client) -> None:
        seen = run(look(client))
        known = seen.known
        for name in names:
            check_topic(known, name)
        logs, ends = (
            _logs(client, known),
            run(replica_ends(client, known, names or sorted(known.topics))),
        )
        found = rows_of(known, names or sorted(known.topics), logs, ends, seen)
        if wanted:
            found = [row for row in found if any(holds(row) for holds in wanted)]
        if json:
            print_json([row.as_json() for row in found])
            return
        if not found:
            note("no partition matches" if wanted else "no partitions")
            return
        _print_partitions(found)

    with cluster.client() as client:
        shown(watch, lambda: show(client), parted=not json)


def _print_partitions(found: Sequence[PartitionRow]) -> None:
    print_table(
        ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "LAG", "BYTES", "STATUS"],
        [
            [
                row.topic,
                row.metadata.partition,
                "none" if row.is_offline else row.metadata.leader,
                row.metadata.leader_epoch,
                listed(row.metadata.replicas),
                listed(row.metadata.isr),
                ",".join("?" if lag is None else str(lag) for lag in row.lags.values()),
                row.size,
                row.status or None,
            ]
            for row in found
        ],
    )


def _logs(client: Client, known: Metadata) -> Logs:
    """Return each broker's replicas; brokers that do not answer or refuse are left out."""
    found = {}
    for broker in sorted(known.brokers):
        try:
            found[broker] = run(replicas.log_dirs(client, broker))
        except (ClientError, ApiError):
            continue
    return found

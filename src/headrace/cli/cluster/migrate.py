"""`headrace cluster migrate`: copy a single broker's metadata into ZooKeeper."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.cli.broker.start import PAIR_FLAGS, flags_of, load_config, parse_pairs
from headrace.cluster.store import znodes
from headrace.ports.store import Create, Operation, Set
from headrace.terminal.failure import UsageError
from headrace.terminal.output import counted, note, print_line

if TYPE_CHECKING:
    from headrace.server.cluster.migrate import Migrated

SECRET = (znodes.USER_CONFIGS, znodes.BROKER_CONFIGS)
"""Nodes that may hold passwords, whose values are not printed."""


def migrate(
    properties: Annotated[Path | None, Parameter(help="The broker's server.properties.")] = None,
    /,
    *,
    log_dirs: Annotated[
        str | None, Parameter(name=flags_of("log.dirs"), help="The broker's log directories.")
    ] = None,
    zookeeper: Annotated[
        str | None,
        Parameter(
            name=flags_of("zookeeper.connect"),
            help="The target ZooKeeper, as host:port,host:port/chroot.",
        ),
    ] = None,
    pairs: Annotated[
        tuple[str, ...],
        Parameter(name=PAIR_FLAGS, help="Any setting as key=value; may be given again."),
    ] = (),
    dry_run: Annotated[bool, Parameter(help="Only print what would be written.")] = False,
) -> None:
    """Migrate the metadata of a stopped single broker to ZooKeeper, so that others can join it.

    Records are not moved. Start the broker with the same --zookeeper afterwards, add brokers, and
    add replicas with headrace cluster reassign. If it is interrupted, run it again: it continues.
    For example:
    headrace cluster migrate --data headrace-data --zookeeper zk:2181/orders
    """
    given = {"log.dirs": log_dirs, "zookeeper.connect": zookeeper}
    flags = {name: text for name, text in given.items() if text is not None}
    # Its listeners are not opened here, so insecure ones are no error.
    config, _ = load_config(
        properties, {**parse_pairs(pairs), **flags, "insecure.listeners": "true"}
    )
    if config.zookeeper_connect is None:
        raise UsageError("pass the ZooKeeper: --zookeeper host:port/chroot")
    from headrace.posix.disk import RealDisk
    from headrace.server.cluster import migrate as server
    from headrace.server.main import run

    done = run(server.migrate(config, RealDisk(None), dry_run=dry_run))
    if dry_run:
        _show(done.operations)
    _tell(done, config.zookeeper_connect, dry_run=dry_run)


def _show(operations: Sequence[Operation]) -> None:
    """Print the writes that a migration would do, one per line."""
    for operation in operations:
        if isinstance(operation, Create | Set):
            secret = operation.value and operation.path.startswith(tuple(f"{p}/" for p in SECRET))
            shown = "(not shown)" if secret else operation.value.decode("utf-8", "replace")
            word = "create" if isinstance(operation, Create) else "set"
            print_line(f"{word} {operation.path} {shown}".rstrip())
        else:
            print_line(f"delete {operation.path}")


def _tell(done: "Migrated", connect: str, *, dry_run: bool) -> None:
    topics = sum(path.rpartition("/")[0] == znodes.TOPICS for path in done.nodes)
    partitions = sum(
        path.startswith(f"{znodes.TOPICS}/") and path.endswith("/state") for path in done.nodes
    )
    what = (
        f"broker {done.migrant.broker} of cluster {done.migrant.cluster_id}:"
        f" {counted(topics, 'topic')}, {counted(partitions, 'partition')}"
    )
    if dry_run:
        note(f"{what}; {counted(len(done.operations), 'znode')} would be written to {connect}")
        return
    written = f"{counted(len(done.operations), 'znode')} written" if done.operations else "it was"
    print_line(f"{what}: in ZooKeeper at {connect} ({written})")
    print_line(
        f"start it with: headrace serve --zookeeper {connect}, and its other settings as before"
    )

"""`headrace dev`: a cluster of several brokers in one process, for trying out."""

import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.cli.broker import banner
from headrace.cli.broker.dev_listeners import (
    NO_PORTS,
    PORT_MAX,
    Ports,
    other_ports,
    own_settings,
)
from headrace.cli.broker.dev_processes import run_processes
from headrace.cli.broker.start import PAIR_FLAGS, QUIET_FLAGS, parse_pairs
from headrace.config.broker import BrokerConfig, load
from headrace.log import file_names
from headrace.observe import logs
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError
from headrace.terminal.output import counted, note

if TYPE_CHECKING:
    from headrace.server.cluster.local_cluster import LocalCluster

BROKERS = 3
BROKERS_MAX = 9
"""More brokers would slow each other down on one event loop."""
PORT = 9092
STORE = "headrace-dev.db"
"""The brokers' common metadata store, in the cluster's directory; `serve` ignores that name."""
OURS = frozenset(
    {"broker.id", "node.id", "listeners", "advertised.listeners", "log.dir", "log.dirs",
     "management.listener", "metrics.listener", "zookeeper.connect"}
)  # fmt: skip
"""Settings that differ for each broker."""
_BROKER = re.compile(r"broker([1-9])")

Processes = Annotated[
    int | None,
    Parameter(
        help="Run this many brokers in separate processes, which can be killed and paused, with"
        " a ZooKeeper from pyspark's jars, in place of --brokers."
    ),
]


def dev(
    *,
    brokers: Annotated[
        int | None,
        Parameter(help=f"1 to {BROKERS_MAX} brokers; default: {BROKERS}."),
    ] = None,
    processes: Processes = None,
    port: Annotated[
        int,
        Parameter(
            name=["--port", "-p"],
            show_default=True,
            help="The first broker's port; the others use the following ones. 0: free ports.",
        ),
    ] = PORT,
    ports: Ports = NO_PORTS,
    data: Annotated[
        Path | None,
        Parameter(help="Directory for the data; default: a temporary one that is deleted at exit."),
    ] = None,
    pairs: Annotated[
        tuple[str, ...],
        Parameter(
            name=PAIR_FLAGS, help="A setting for all brokers as key=value; may be given again."
        ),
    ] = (),
    log_level: Annotated[
        str, Parameter(show_default=True, help="debug, info, warning or error.")
    ] = "warning",
    log_format: Annotated[str, Parameter(show_default=True, help="text or json.")] = "text",
    quiet: Annotated[bool, Parameter(name=QUIET_FLAGS, help="Print nothing at start.")] = False,
) -> int:
    """Run a test cluster, all brokers in this process, until Ctrl-C.

    It listens on this machine only, and needs no ZooKeeper unless --processes is given. For
    example: headrace dev --brokers 3 --data ./trial; headrace dev --processes 3
    """
    with ExitStack() as undo:
        if data is None:
            place = Path(tempfile.mkdtemp(prefix="headrace-dev-"))
            undo.callback(shutil.rmtree, place, ignore_errors=True)
        else:
            place = data
            check_place(place)
        given = {"log.level": log_level, "log.format": log_format, **parse_pairs(pairs)}
        if processes is not None:
            if brokers is not None:
                raise UsageError("--processes cannot be combined with --brokers")
            _refuse_own(given)
            _lock(place, undo)
            return run_processes(processes, place, port, vars(ports), given, quiet=quiet)
        count = how_many(brokers, kept(place))
        configs = configs_of(place, count, port, given, vars(ports))
        _lock(place, undo)
        return _run(configs, place, keeps=data is not None, quiet=quiet)


def check_place(place: Path) -> None:
    """Raise CommandError if `place` is the log directory of a single broker."""
    for name in (file_names.METADATA, file_names.META_PROPERTIES):
        if (place / name).exists():
            raise CommandError(
                f"--data {place}: is the log directory of a single broker ({name} exists): pass"
                " another directory, or run that broker with headrace serve",
                EXIT_FAILED,
            )


def kept(place: Path) -> int:
    """Return the number of brokers whose data is in `place`."""
    found = [_BROKER.fullmatch(path.name) for path in place.glob("broker*") if path.is_dir()]
    return max((int(match[1]) for match in found if match), default=0)


def how_many(asked: int | None, there: int) -> int:
    """Return the number of brokers to run: never fewer than those with data. Raises UsageError."""
    if asked is None:
        return there or BROKERS
    if not 1 <= asked <= BROKERS_MAX:
        raise UsageError(f"--brokers {asked}: must be 1 to {BROKERS_MAX}")
    if asked < there:
        raise UsageError(
            f"--brokers {asked}: the directory has the data of {counted(there, 'broker')}, and"
            f" some data may be only on the others; pass --brokers {there}, or another --data"
        )
    return asked


def configs_of(
    place: Path,
    count: int,
    port: int,
    given: Mapping[str, str],
    ports: Mapping[str, int | None] = MappingProxyType({}),
) -> list[BrokerConfig]:
    """Return the configuration of each broker. Raises UsageError or ConfigError.

    `ports`: by flag, the first broker's ports of other protocols, as `other_ports` has them.
    """
    _refuse_own(given)
    if not 0 <= port <= PORT_MAX + 1 - count:
        raise UsageError(
            f"--port {port}: must be 1 to {PORT_MAX + 1 - count} for {counted(count, 'broker')}, or"
            " 0 for free ports"
        )
    others = other_ports(count, port, ports)
    copies, least = str(min(3, count)), str(min(2, count))
    alike = {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": least,
        # A single consumer need not wait for other members.
        "group.initial.rebalance.delay.ms": "0",
        # If no broker can take over, the others have stopped for good: retries are useless.
        "controlled.shutdown.max.retries": "1",
        "leader.imbalance.check.interval.seconds": "5",
        **given,
    }
    configs = []
    for number in range(1, count + 1):
        own = {
            "broker.id": str(number),
            "log.dirs": str(place / f"broker{number}"),
            **own_settings(number, port and port + number - 1, others, given),
        }
        config, warnings = load(flags={**alike, **own})
        configs.append(config)
    for warning in warnings:
        if not warning.startswith("default.replication.factor="):  # there are several brokers
            note(f"headrace: warning: {warning}")
    return configs


def _refuse_own(given: Mapping[str, str]) -> None:
    """Raise UsageError for a setting that must differ for each broker."""
    own = sorted(OURS & given.keys())
    if own:
        raise UsageError(f"--set {own[0]}: differs for each broker and cannot be set here")


def _lock(place: Path, undo: ExitStack) -> None:
    """Lock the directory of `headrace dev` for this process. CommandError: in use."""
    from headrace.posix.disk import RealDisk

    place.mkdir(parents=True, exist_ok=True)
    try:
        undo.callback(RealDisk(None).lock(f"{place}/{file_names.LOCK}"))
    except BlockingIOError as held:
        raise CommandError(
            f"--data {place}: in use by {held.strerror}: stop that headrace dev, or pass another"
            " directory",
            EXIT_FAILED,
        ) from None


def _run(configs: list[BrokerConfig], place: Path, *, keeps: bool, quiet: bool) -> int:
    form = configs[0].log_format
    logs.set_up(configs[0].log_level, form=form)
    from headrace.server.cluster.local_cluster import LocalCluster
    from headrace.server.main import serve_until_signal

    def started(cluster: "LocalCluster") -> None:
        if not quiet:
            facts = banner.facts_of(cluster.servers, data=str(place), data_kept=keeps)
            banner.show(facts, form, ends_by=banner.CTRL_C)

    return serve_until_signal(
        lambda fatal: LocalCluster(configs, f"{place}/{STORE}", fatal), started, announced=True
    )

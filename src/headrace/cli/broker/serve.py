"""`headrace serve`: its options, converted to settings by key."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.broker.start import (
    PAIR_FLAGS,
    PORT_MAX,
    QUIET_FLAGS,
    flags_of,
    is_port,
    listener_on,
    parse_pairs,
    start,
)
from headrace.terminal.failure import UsageError


@Parameter(name="*")
@dataclass(frozen=True)
class ServeOptions:
    """Settings of `headrace serve` that have a flag of their own."""

    insecure: Annotated[
        bool,
        Parameter(help="Allow listeners without TLS that other machines can reach."),
    ] = False
    secure: Annotated[
        bool,
        Parameter(
            help="Require TLS and authentication: create a private certificate authority, ACLs, a"
            " first user and client files next to the data. Listeners are SASL_SSL://host:port."
        ),
    ] = False
    pairs: Annotated[
        tuple[str, ...],
        Parameter(name=PAIR_FLAGS, help="Any setting as key=value; may be given again."),
    ] = ()
    listeners: Annotated[
        str | None,
        Parameter(name=flags_of("listeners"), help="Where to listen: PLAINTEXT://host:port."),
    ] = None
    port: Annotated[
        int | None,
        Parameter(help="Listen on this port of the loopback; 0: a free port."),
    ] = None
    advertised: Annotated[
        str | None,
        Parameter(name=flags_of("advertised.listeners"), help="Addresses that clients receive."),
    ] = None
    log_dirs: Annotated[
        str | None,
        Parameter(name=flags_of("log.dirs"), help="Log directories, where records are stored."),
    ] = None
    broker_id: Annotated[
        str | None, Parameter(name=flags_of("broker.id"), help="This broker's id.")
    ] = None
    zookeeper: Annotated[
        str | None,
        Parameter(
            name=flags_of("zookeeper.connect"),
            help="The ZooKeeper of the cluster, as host:port,host:port/chroot.",
        ),
    ] = None
    accept_cluster_id: Annotated[
        str | None,
        Parameter(
            name=flags_of("accept.cluster.id"),
            help="Start in the cluster with this id although log directories and"
            " ZooKeeper disagree.",
        ),
    ] = None
    metrics: Annotated[
        str | None,
        Parameter(
            name=flags_of("metrics.listener"),
            help="host:port of the HTTP endpoint with /metrics for Prometheus.",
        ),
    ] = None
    management: Annotated[
        str | None,
        Parameter(
            name=flags_of("management.listener"),
            help="host:port of RabbitMQ's management API, next to a listener for its clients.",
        ),
    ] = None
    log_level: Annotated[
        str | None, Parameter(name=flags_of("log.level"), help="debug, info, warning or error.")
    ] = None
    log_format: Annotated[
        str | None,
        Parameter(
            name=flags_of("log.format"), help="text (a line each) or json (an object per line)."
        ),
    ] = None

    def by_key(self) -> dict[str, str]:
        """Return the given settings by configuration key. Raises UsageError."""
        flags = parse_pairs(self.pairs)
        if self.port is not None:
            if self.listeners is not None:
                raise UsageError("--port and --listeners cannot be combined")
            if not is_port(str(self.port)):
                raise UsageError(f"--port {self.port}: must be 0 to {PORT_MAX}")
            flags["listeners"] = listener_on(self.port, "SASL_SSL" if self.secure else "PLAINTEXT")
        given = {
            "listeners": self.listeners,
            "advertised.listeners": self.advertised,
            "log.dirs": self.log_dirs,
            "broker.id": self.broker_id,
            "zookeeper.connect": self.zookeeper,
            "accept.cluster.id": self.accept_cluster_id,
            "metrics.listener": self.metrics,
            "management.listener": self.management,
            "log.level": self.log_level,
            "log.format": self.log_format,
            "insecure.listeners": "true" if self.insecure else None,
        }
        flags.update((name, text) for name, text in given.items() if text is not None)
        return flags


def serve(
    properties: Annotated[
        Path | None, Parameter(help="A server.properties file, as for Kafka.")
    ] = None,
    /,
    *,
    options: ServeOptions = ServeOptions(),
    quiet: Annotated[bool, Parameter(name=QUIET_FLAGS, help="Print nothing at start.")] = False,
    daemon: Annotated[
        bool,
        Parameter(
            name=["-d", "--daemon"],
            help="Run in the background once it listens; stop it with headrace stop.",
        ),
    ] = False,
    log_file: Annotated[
        Path | None, Parameter(help="With --daemon: the log file; default: in the log directory.")
    ] = None,
    pid_file: Annotated[
        Path | None, Parameter(help="The pid file; default: in the log directory.")
    ] = None,
) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Settings have Kafka's names. Flags override HEADRACE_… variables (HEADRACE_LOG_DIRS for
    log.dirs), which override the file; docs/configuration.md lists them. For example:
    headrace serve --port 9092 --data ./headrace-data --metrics 127.0.0.1:9404
    """
    return start(
        properties,
        options.by_key(),
        quiet=quiet,
        daemon=daemon,
        log_file=log_file,
        pid_file=pid_file,
        secure=options.secure,
    )

"""The text printed once a broker, or several of one process, accept requests.

On a terminal a few lines with the important parts in bold; elsewhere the same lines plain; one JSON
object if the log is JSON. Scripts may rely on the line `headrace VERSION listens on ADDRESS` per
listener, and on the names in the JSON object.
"""

import os
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from headrace import __version__
from headrace.config.tls_settings import uses_tls
from headrace.model.protocols import ROWS, row_of
from headrace.terminal.defaults import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.config.broker import BrokerConfig
    from headrace.config.listeners import Listener
    from headrace.server.assembly import Server

CTRL_C = "Ctrl-C ends it."
"""How to end a broker in the foreground."""
_BOLD, _DIM, _GREEN, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"
_WIDTH = 18
"""Width of the names' column on a terminal."""


class Facts(NamedTuple):
    """Facts about brokers that have just started, with these names in the JSON object."""

    version: str
    brokers: tuple[int, ...]
    """The brokers' ids."""
    cluster_id: str
    pid: int
    listeners: tuple[str, ...]
    """Addresses of all listeners, as `listeners` has them."""
    advertised: tuple[str, ...]
    """Advertised addresses, in the same order and form."""
    bootstrap: str
    """The value for clients' bootstrap.servers."""
    data: str
    data_kept: bool
    """Whether the data stays after the process ends."""
    durable: bool
    """Whether acks=all waits for the disk."""
    metrics: str | None
    """URL of the metrics for Prometheus; None without metrics.listener."""
    own_name: str | None
    """The machine's host name, if it is advertised because no other was set; None otherwise."""
    pid_file: str | None = None
    log_file: str | None = None
    """Path of the log file; None: standard error."""
    admin_socket: str | None = None
    """Path of the socket for administration without a password; None without one."""
    secure: "Mapping[str, Any] | None" = None
    """With --secure: first user, authority's certificate, expiry of the broker's one, client files.

    None without --secure.
    """
    tries: "Mapping[str, str]" = MappingProxyType({})
    """The address of the first listener of each protocol whose `try_it` can be run, by its row's
    name; not in the JSON object."""


def facts_of(
    servers: "Sequence[Server]", *, data: str | None = None, data_kept: bool = True
) -> Facts:
    """Return the facts of brokers that have started; `data`: their common directory."""
    first = servers[0]
    http = first.http
    return Facts(
        version=__version__,
        brokers=tuple(int(server.broker.broker_id) for server in servers),
        cluster_id=first.broker.cluster_id,
        pid=os.getpid(),
        listeners=tuple(address for server in servers for address in server.listening()),
        advertised=tuple(
            f"{endpoint.listener}://{endpoint.host}:{endpoint.port}"
            for server in servers
            for endpoint in server.endpoints()
        ),
        bootstrap=bootstrap_of(servers),
        data=data or ", ".join(os.path.abspath(path) for path in first.config.log_dirs),
        data_kept=data_kept,
        durable=first.config.log_flush_on_ack,
        metrics=None if http is None else f"{http.url}/metrics",
        own_name=_own_name(first),
        admin_socket=first.doors.local_path if len(servers) == 1 else None,
        tries=_tries(first.config, first.listening()),
    )


def _tries(config: "BrokerConfig", addresses: "Sequence[str]") -> dict[str, str]:
    """Return the value of `Facts.tries`. `addresses`: those of all listeners, in their order."""
    found: dict[str, str] = {}
    for listener, address in zip(config.listeners, addresses, strict=True):
        row = row_of(listener.protocol)
        if row.try_it and ("{address}" not in row.try_it or _is_open(config, listener)):
            found.setdefault(row.name, address.partition("://")[2])
    return found


def _is_open(config: "BrokerConfig", listener: "Listener") -> bool:
    """Return whether a command without TLS and keys can ask a listener that is not Kafka's."""
    keys = listener.spoken.signing_keys
    return not uses_tls(config.values, listener) and not (keys and config.values[keys])


def bootstrap_of(servers: "Sequence[Server]") -> str:
    """Return the value for clients' bootstrap.servers."""
    return ",".join("{0.host}:{0.port}".format(server.endpoints()[0]) for server in servers)


def _own_name(server: "Server") -> str | None:
    for endpoint, set_to in zip(
        server.endpoints(), server.config.advertised_listeners, strict=True
    ):
        if not set_to.host:
            return endpoint.host
    return None


def show(facts: Facts, log_format: str, *, ends_by: str, out: TextIO | None = None) -> None:
    """Print the facts to `out` in the form that suits it: JSON, terminal or plain lines.

    Raises OSError. `ends_by`: a sentence that says how to end the broker.
    """
    out = sys.stdout if out is None else out
    if log_format == "json":
        import json

        said = {"event": "started", **facts._asdict()}
        del said["tries"]
        lines = [json.dumps(said, ensure_ascii=False, separators=(",", ":"))]
    elif out.isatty():
        lines = _for_a_terminal(facts, ends_by, colours="NO_COLOR" not in os.environ)
    else:
        lines = _plain(facts, ends_by)
    out.write("".join(f"{line}\n" for line in lines))
    out.flush()  # a script may wait for it on a pipe


def _plain(facts: Facts, ends_by: str) -> list[str]:
    lines = [f"headrace {facts.version} listens on {address}" for address in facts.listeners]
    lines.append(f"bootstrap.servers={facts.bootstrap}")
    return [*lines, *(f"{name}: {text}" for name, text in _told(facts)), ends_by]


def _for_a_terminal(facts: Facts, ends_by: str, *, colours: bool) -> list[str]:
    bold, dim, green, off = (_BOLD, _DIM, _GREEN, _OFF) if colours else ("",) * 4
    count = len(facts.brokers)
    who = f"broker {facts.brokers[0]}" if count == 1 else f"{count} brokers"
    head = f"  {green}{bold}headrace{off} {facts.version}  {dim}{who}, pid {facts.pid}{off}"
    rows = [("listens on", address) for address in facts.listeners]
    rows += [("clients use", facts.bootstrap), *_told(facts)]
    return [
        "",
        head,
        "",
        *(f"  {dim}{name:<{_WIDTH}}{off}{bold}{text}{off}" for name, text in rows),
        "",
        f"  {dim}{ends_by}{off}",
        "",
    ]


def _told(facts: Facts) -> list[tuple[str, str]]:
    """Return the facts of both text forms, as names and texts."""
    durability = "acks=all waits for the disk"
    if not facts.durable:
        durability = (
            "acks=all does not wait for the disk (log.flush.on.ack=false): a power failure can"
            " lose acknowledged records"
        )
    process = str(facts.pid)
    if facts.pid_file is not None:
        process += f", noted in {facts.pid_file}"
    stays = "" if facts.data_kept else " (deleted at exit; --data DIR keeps it)"
    told = ", ".join(facts.advertised)
    if facts.own_name is not None:
        told += (
            f" ({facts.own_name} is this machine's host name; if clients cannot resolve it, set"
            " another with --advertised-listeners"
            f" {facts.advertised[0].partition(':')[0]}://HOST:PORT)"
        )
    rows = [
        ("advertised address", told),
        ("data in", f"{facts.data}{stays}"),
        ("durability", durability),
        ("process", process),
        ("log on", facts.log_file or "standard error"),
    ]
    if facts.admin_socket is not None:
        rows.append(("administration", f"-b unix:{facts.admin_socket}"))
    if facts.secure is not None:
        rows += _locked(facts.secure)
    if facts.metrics is not None:
        rows.append(("metrics", facts.metrics))
    return [*rows, *(("try", line) for line in _first_lines(facts))]


def _locked(secure: "Mapping[str, Any]") -> list[tuple[str, str]]:
    """Return the lines about --secure, as names and texts."""
    return [
        ("locked", f"TLS, SCRAM and ACLs; the first user is {secure['user']}, a super user"),
        ("certificate", f"until {secure['certificate_until']}, signed by {secure['authority']}"),
        *(("for clients", path) for path in secure["clients"]),
    ]


def _first_lines(facts: Facts) -> list[str]:
    """Return a command line for each protocol, to paste into another terminal."""
    first = facts.bootstrap.partition(",")[0]
    where = "" if first == DEFAULT_BOOTSTRAP else f" -b {first}"
    if facts.secure is not None and facts.secure["clients"]:
        where = f" --command-config {facts.secure['clients'][0]}"
    command = _command(sys.argv[0], os.environ.get("PATH", ""))
    return [
        row.try_it.format(headrace=command, where=where, address=facts.tries[row.name])
        for row in ROWS
        if row.name in facts.tries
    ]


def _command(called: str, path: str) -> str:
    """Return the name by which a shell finds this command: its path if it is not on PATH."""
    place, _, name = called.rpartition("/")
    if name != "headrace" or not place or place in path.split(os.pathsep):
        return "headrace"
    return called

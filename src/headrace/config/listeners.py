"""Listener lists (`NAME://host:port,NAME://[v6]:port`) and the rules for a broker's listeners."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.model.errors import ConfigError
from headrace.model.loopback import is_loopback
from headrace.model.protocol_row import ListenerProtocol, ProtocolRow
from headrace.model.protocols import KAFKA, ROWS, listener_protocols, row_of

LISTENER_PROTOCOLS = listener_protocols()
"""All protocols that listeners can speak, by name."""
PROTOCOLS = tuple(spoken.name for spoken in KAFKA.listeners)
"""Kafka's security protocols, in the order of their numbers in its protocol."""
TLS_PROTOCOLS = frozenset(
    name for name, spoken in LISTENER_PROTOCOLS.items() if spoken.tls or spoken.tls_mode
)
"""Protocols whose listeners can use TLS; `tls_settings.uses_tls` says whether one does."""
SASL_PROTOCOLS = frozenset(name for name, spoken in LISTENER_PROTOCOLS.items() if spoken.sasl)
CLIENT_PROTOCOL = "security.protocol"
"""The client setting that names the security protocol."""
LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
PROTOCOL_MAP, CONTROLLERS = "listener.security.protocol.map", "controller.listener.names"
INTER_BROKER, CONTROL_PLANE = "inter.broker.listener.name", "control.plane.listener.name"
INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"
LISTENER_KEYS = (LISTENERS, ADVERTISED, PROTOCOL_MAP, CONTROLLERS)
"""The configuration keys about listeners whose values are lists."""
LISTENER_PREFIX = "listener.name."
"""Prefix of the keys of one listener; its name and the key follow."""
METRICS_LISTENER = "metrics.listener"
"""The key of the HTTP listener and its name internally; names in `listeners` have no dots."""
MANAGEMENT_LISTENER = "management.listener"
"""The key whose host:port adds a listener of the management API."""
METRICS_PREFIX_NAME = "METRICS"
"""The HTTP listener's name in its own keys: `listener.name.metrics.ssl.keystore.location`."""
_UNSAID = "PLAINTEXT"
"""The security protocol between brokers if none is configured."""
_TO_ALLOW = "to allow that, start with --insecure or set insecure.listeners=true"
_REFUSED_PLAIN = "open to other machines without encryption and authentication"
_NO_KAFKA = (
    "none of them speaks Kafka's protocol, by which a broker is administered: add"
    " PLAINTEXT://127.0.0.1:9092"
)
_FORM = re.compile(
    r"(?P<name>[A-Za-z0-9_-]+)://"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/ ]*))(?::(?P<port>[0-9]+))?"
)


class Listener(NamedTuple):
    """A listener: name, address and protocol; bound or advertised."""

    name: str
    host: str
    """"": all interfaces.

    In an advertised listener: the machine's host name, filled in by `server`.
    """
    port: int
    """0: any free port; in an advertised listener: the port that was bound."""
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def spoken(self) -> ListenerProtocol:
        """The row of the listener's protocol."""
        return LISTENER_PROTOCOLS[self.protocol]

    @property
    def kafka(self) -> bool:
        """Whether the listener speaks Kafka's protocol; only such ones are advertised."""
        return self.protocol in PROTOCOLS

    @property
    def everywhere(self) -> bool:
        """Whether the host means all interfaces."""
        return self.host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect to the listener."""
        return is_loopback(self.host)


def spoken_rows(listeners: Iterable[Listener]) -> list[ProtocolRow]:
    """Return the rows of the protocols that listeners speak, each once, in the listeners' order."""
    return list({row.name: row for row in (row_of(each.protocol) for each in listeners)}.values())


class Configured(NamedTuple):
    """The listeners from `LISTENER_KEYS`, and what is wrong with them."""

    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    """An advertised listener per listener of Kafka's protocol, in their order."""
    wrong: list[tuple[str, str, str]]
    """Problems: the key, its value, the reason."""


def configured(
    given: Mapping[str, Sequence[str]],
    *,
    insecure: bool,
    authenticates: Callable[[Listener], bool],
) -> Configured:
    """Return the listeners of a configuration, without those of KRaft controllers.

    `insecure`: listeners without encryption or authentication may be open to other machines.
    `authenticates`: whether a listener with TLS requires certificates, or signatures.
    """
    listeners: tuple[Listener, ...] = ()
    advertised: tuple[Listener, ...] = ()
    wrong: list[tuple[str, str, str]] = []
    skipped = {word.upper() for word in given[CONTROLLERS]}
    name = PROTOCOL_MAP
    try:
        protocols = parse_protocols(given[PROTOCOL_MAP])
        name = LISTENERS
        listeners = parse_listeners(_without(given[LISTENERS], skipped), protocols)
        of_kafka = [listener for listener in listeners if listener.kafka]
        if not of_kafka:
            raise ValueError(_NO_KAFKA)
        name = ADVERTISED
        entries = _without(given[ADVERTISED], skipped)
        advertised = _advertised(of_kafka, parse_listeners(entries, protocols) if entries else ())
    except ValueError as error:
        wrong.append((name, ",".join(given[name]), str(error)))
    for listener in listeners:
        reasons = (_refusal(listener, insecure, authenticates), _need(listener, listeners))
        wrong.extend((LISTENERS, str(listener), reason) for reason in reasons if reason)
    return Configured(listeners, advertised, wrong)


def _without(entries: Sequence[str], skipped: Collection[str]) -> list[str]:
    return [entry for entry in entries if entry.partition("://")[0].upper() not in skipped]


def _advertised(listeners: Sequence[Listener], given: Sequence[Listener]) -> tuple[Listener, ...]:
    """Return the advertised address of each listener of Kafka's protocol. Raises ValueError."""
    by_name = {advertised.name: advertised for advertised in given}
    for advertised in by_name.values():
        if not advertised.kafka:
            name = row_of(advertised.protocol).name
            raise ValueError(f"{advertised}: clients of {name} are told no addresses; leave it out")
        if advertised.name not in {listener.name for listener in listeners}:
            raise ValueError(f"there is no listener named {advertised.name}")
        if advertised.everywhere:
            raise ValueError(f"{advertised}: clients cannot connect to all interfaces, name a host")
    return tuple(
        by_name.get(listener.name, listener._replace(host="") if listener.everywhere else listener)
        for listener in listeners
    )


def _refusal(
    listener: Listener, insecure: bool, authenticates: Callable[[Listener], bool]
) -> str | None:
    """Return why `listener` is too insecure to be opened to other machines, or None."""
    spoken = listener.spoken
    if insecure or listener.loopback or not spoken.lacks:
        return None
    if spoken.certificate_suffices and authenticates(listener):
        return None
    return f"open to other machines {spoken.lacks}; {_TO_ALLOW}"


def _need(listener: Listener, listeners: Iterable[Listener]) -> str | None:
    """Return which other listener `listener` needs and does not have, or None."""
    needed = row_of(listener.protocol).needs
    if not needed or needed in {row_of(each.protocol).name for each in listeners}:
        return None
    protocol = next(row for row in ROWS if row.name == needed).listeners[0]
    return (
        f"needs a listener of {needed} at the same broker: add"
        f" {protocol.name}://127.0.0.1:{protocol.default_port}"
    )


def refusal_of_plain(listener: Listener) -> str | None:
    """Return why a plain-text HTTP listener needs `insecure.listeners`.

    None on the loopback interface.
    """
    return None if listener.loopback else f"{_REFUSED_PLAIN}; {_TO_ALLOW}"


def refusal_of_metrics(listener: Listener, *, requires_certificate: bool) -> str | None:
    """Return why the HTTP listener over TLS needs `insecure.listeners`, or None."""
    if listener.loopback or requires_certificate:
        return None
    return (
        "open to other machines without authentication; set"
        f" listener.name.metrics.ssl.client.auth=required; {_TO_ALLOW}"
    )


class InterBrokerListeners(NamedTuple):
    """The listeners by which brokers connect to each other."""

    name: str
    """The inter-broker listener's name."""
    control_plane: str | None
    """The listener for the controller's requests, if it is a separate one, or None."""
    wrong: list[tuple[str, str, str]]
    """Problems: the key, its value, the reason."""


def inter_broker_listeners(
    listeners: Sequence[Listener], name: str | None, protocol: str, control_plane: str | None
) -> InterBrokerListeners:
    """Return the inter-broker listeners, and problems with the configured names.

    `name` None: the listener named like `protocol`, else the first that speaks it, else the first.
    """
    names = [listener.name for listener in listeners if listener.kafka]
    speaking = [listener.name for listener in listeners if listener.protocol == protocol]
    wanted = protocol if protocol in names else (speaking or names or [""])[0]
    wrong: list[tuple[str, str, str]] = []
    if name is None and not speaking and protocol != _UNSAID:
        wrong.append((INTER_BROKER_PROTOCOL, protocol, "no listener speaks it"))
    if name is not None:
        wanted = name.upper()
        if wanted not in names:
            wrong.append((INTER_BROKER, name, "there is no listener of that name"))
    apart = None if control_plane is None else control_plane.upper()
    if control_plane is not None:
        if apart not in names:
            wrong.append((CONTROL_PLANE, control_plane, "there is no listener of that name"))
        elif apart == wanted:
            reason = "brokers reach each other by it: the controller needs another, or none"
            wrong.append((CONTROL_PLANE, control_plane, reason))
    return InterBrokerListeners(wanted, apart, wrong)


def client_protocol(settings: Mapping[str, str]) -> str:
    """Return the security protocol of a client's settings, by default PLAINTEXT.

    Raises ConfigError.
    """
    protocol = settings.get(CLIENT_PROTOCOL, _UNSAID).strip().upper()
    if protocol not in PROTOCOLS:
        allowed = ", ".join(PROTOCOLS)
        raise ConfigError(f"{CLIENT_PROTOCOL}={protocol}: must be one of {allowed}")
    return protocol


def parse_protocols(entries: Sequence[str]) -> dict[str, str]:
    """Parse `listener.security.protocol.map` into protocols by listener name. Raises ValueError.

    A listener named like a protocol other than Kafka's speaks that one without an entry.
    """
    protocols: dict[str, str] = {name: name for name in LISTENER_PROTOCOLS.keys() - set(PROTOCOLS)}
    for entry in entries:
        name, _, protocol = (part.strip() for part in entry.partition(":"))
        if not name or protocol.upper() not in LISTENER_PROTOCOLS:
            allowed = ", ".join(LISTENER_PROTOCOLS)
            raise ValueError(f"{entry!r} is not NAME:PROTOCOL, one of {allowed}")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(entries: Sequence[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parse a list of listeners, each name once.

    ValueError names the wrong entry and the reason.
    """
    listeners: dict[str, Listener] = {}
    for entry in entries:
        listener = _parse(entry, protocols)
        if listener.name in listeners:
            raise ValueError(_twice(listener))
        for other in listeners.values():
            if listener.port and (other.host, other.port) == (listener.host, listener.port):
                raise ValueError(f"{listener.name} and {other.name} have the same address")
        listeners[listener.name] = listener
    if not listeners:
        raise ValueError("needs at least one NAME://host:port")
    return tuple(listeners.values())


def _twice(listener: Listener) -> str:
    """Return the error text for two listeners of one name, with the remedy."""
    other = f"{listener.name}2"
    return (
        f"two listeners have the name {listener.name}. Rename the second one, to"
        f" {listener._replace(name=other)}, and add {other}:{listener.protocol} to {PROTOCOL_MAP}"
    )


def _parse(entry: str, protocols: Mapping[str, str]) -> Listener:
    form = _FORM.fullmatch(entry)
    if form is None:
        raise ValueError(f"{entry!r} is not NAME://host:port")
    name = form["name"].upper()
    if name not in protocols:
        raise ValueError(
            f"there is no listener name {name}; known are {', '.join(sorted(protocols))}, and"
            f" {PROTOCOL_MAP} can define others"
        )
    spoken = LISTENER_PROTOCOLS[protocols[name]]
    port_text = form["port"] or spoken.default_port
    if port_text is None:
        raise ValueError(f"{entry!r} is not NAME://host:port")
    port = int(port_text)
    if port > 65535:
        raise ValueError(f"{entry!r}: a port is at most 65535")
    return Listener(name, form["v6"] or form["host"] or "", port, protocols[name])


def parse_address(text: str) -> tuple[str, int]:
    """Parse `host:port`, `[v6]:port` or `:port` (loopback) to host and port. Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host or "127.0.0.1", int(port)

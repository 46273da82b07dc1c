"""Rules between several keys: values that replace unset ones, bounds, listeners, contradictions."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.config.connection_limits import connection_limits
from headrace.config.definitions import BROKER
from headrace.config.keys.row import attribute, stand_in
from headrace.config.listener_keys import ListenerValues
from headrace.config.listeners import (
    CONTROL_PLANE,
    INTER_BROKER,
    INTER_BROKER_PROTOCOL,
    LISTENER_KEYS,
    LISTENERS,
    MANAGEMENT_LISTENER,
    SASL_PROTOCOLS,
    Listener,
    configured,
    inter_broker_listeners,
    parse_address,
    refusal_of_metrics,
    refusal_of_plain,
)
from headrace.config.tls_settings import (
    authenticates,
    metrics_tls,
    problems_of,
    tls_settings,
    uses_tls,
)
from headrace.config.value_types import Value
from headrace.model.protocols import MANAGEMENT

SEGMENT_BYTES_KAFKA_4_MIN = 1 << 20

_NOT_ABOVE = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)
"""Pairs of keys; the first value is at most the second."""

_WITHIN = tuple(
    (name, name.replace(".min.", "."), name.replace(".min.", ".max."))
    for name in BROKER
    if name.startswith(("group.consumer.min.", "group.share.min."))
)
"""Triples of keys: a group default lies between the least and greatest value groups may set."""

_BELOW = tuple(
    (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
    for kind in ("consumer", "share")
)
"""Pairs of keys; the first is less than the second, or members expire before their heartbeat."""

_DOUBTFUL: tuple[tuple[str, Callable[[int], bool], str], ...] = (
    (
        "log.segment.bytes",
        lambda segment_bytes: segment_bytes < SEGMENT_BYTES_KAFKA_4_MIN,
        "Kafka 4 refuses less than 1 MiB; many small files cost time",
    ),
    (
        "default.replication.factor",
        lambda factor: factor > 1,
        "there is one broker; topics that name no factor of their own cannot be created",
    ),
)
"""Values that are allowed and likely unintended: the key, the test, the reason."""


class Combined(NamedTuple):
    """Attributes computed from several keys, and the problems found."""

    attributes: dict[str, object]
    """Values by attribute name of `BrokerConfig`."""
    problems: list[str]
    """Errors, one line each."""


def combine(values: Mapping[str, Value]) -> Combined:
    """Compute all attributes that depend on several keys, and check the rules between keys."""
    combined = Combined({}, [])
    for name, definition in BROKER.items():
        standing_in = stand_in(definition, values) if values[name] is None else None
        if standing_in is not None:
            combined.attributes[attribute(name)] = standing_in
    rules = (
        _identity, _zookeeper, _directories, _bounds, _listeners, _sasl, _connections, _metrics,
    )  # fmt: skip
    for rule in rules:
        rule(values, combined)
    return combined


def doubtful(values: Mapping[str, Value]) -> list[str]:
    """Return warnings about allowed values that are likely unintended, one line each."""
    alone = values["zookeeper.connect"] is None
    warnings = [
        problem_line(name, str(values[name]), reason)
        for name, is_doubtful, reason in _DOUBTFUL
        if is_doubtful(_int(values[name])) and (alone or name != "default.replication.factor")
    ]
    if _words(values["controller.listener.names"]):
        warnings.append(
            "controller.listener.names: there is no KRaft controller here to listen for"
        )
    return warnings


def problem_line(name: str, text: str, reason: str) -> str:
    """Return the line `name=text: reason`."""
    return f"{name}={text}: {reason}"


def _identity(values: Mapping[str, Value], combined: Combined) -> None:
    node_id, broker_id = values["node.id"], values["broker.id"]
    if node_id is not None:
        combined.attributes["broker_id"] = node_id
        if broker_id not in {-1, node_id}:
            combined.problems.append(
                problem_line("node.id", str(node_id), f"but broker.id={broker_id}")
            )


def _zookeeper(values: Mapping[str, Value], combined: Combined) -> None:
    if values["zookeeper.connect"] is None:
        return
    if values["zookeeper.set.acl"] and not values["zookeeper.digest.credentials"]:
        reason = "the ACLs name the user of zookeeper.digest.credentials: set that key"
        combined.problems.append(problem_line("zookeeper.set.acl", "true", reason))
    broker_id = _int(values["broker.id"] if values["node.id"] is None else values["node.id"])
    reserved = _int(values["reserved.broker.max.id"])
    reason = ""
    if values["broker.id.generation.enable"]:
        if broker_id > reserved:
            reason = (
                f"greater than reserved.broker.max.id={reserved}: ZooKeeper may generate the same"
                " id for another broker; use a smaller id or raise that setting"
            )
    elif broker_id < 0:
        reason = "give it a number, or set broker.id.generation.enable=true"
    if reason:
        combined.problems.append(problem_line("broker.id", str(broker_id), reason))


def _directories(values: Mapping[str, Value], combined: Combined) -> None:
    directories = tuple(filter(None, _words(values["log.dirs"])))
    if not directories:
        directories = (str(values["log.dir"]),)
        named = "log.dir" if values["log.dirs"] is None else "log.dirs"
        if values["log.dirs"] is not None or not values["log.dir"]:
            combined.problems.append(problem_line(named, "", "names no directory"))
    if len(set(directories)) < len(directories):
        combined.problems.append(
            problem_line("log.dirs", ",".join(directories), "a directory twice")
        )
    combined.attributes["log_dirs"] = directories


def _bounds(values: Mapping[str, Value], combined: Combined) -> None:
    for name, high in _NOT_ABOVE:
        if _int(values[name]) > _int(values[high]):
            combined.problems.append(
                problem_line(name, str(values[name]), f"more than {high}={values[high]}")
            )
    for low, name, high in _WITHIN:
        if not _int(values[low]) <= _int(values[name]) <= _int(values[high]):
            reason = (
                f"must be between {low}={values[low]} and {high}={values[high]}:"
                " change the value or that bound"
            )
            combined.problems.append(problem_line(name, str(values[name]), reason))
    for name, high in _BELOW:
        if _int(values[name]) >= _int(values[high]):
            reason = f"not less than {high}={values[high]}: shorten the one or lengthen the other"
            combined.problems.append(problem_line(name, str(values[name]), reason))


def _listeners(values: Mapping[str, Value], combined: Combined) -> None:
    given = {name: _words(values[name]) for name in LISTENER_KEYS}
    text = str(values[MANAGEMENT_LISTENER])
    if text:
        try:
            added = Listener(MANAGEMENT.listeners[0].name, *parse_address(text), "")
            given[LISTENERS] = (*given[LISTENERS], str(added))
        except ValueError as error:
            combined.problems.append(problem_line(MANAGEMENT_LISTENER, text, str(error)))
    listeners, advertised, wrong = configured(
        given,
        insecure=bool(values["insecure.listeners"]),
        authenticates=lambda listener: authenticates(values, listener),
    )
    combined.attributes["listeners"] = listeners
    combined.attributes["advertised_listeners"] = advertised
    combined.problems.extend(problem_line(*problem) for problem in wrong)
    name, apart, unfit = inter_broker_listeners(
        listeners,
        _text(values[INTER_BROKER]),
        str(values[INTER_BROKER_PROTOCOL]),
        _text(values[CONTROL_PLANE]),
    )
    combined.attributes[attribute(INTER_BROKER)] = name
    combined.attributes[attribute(CONTROL_PLANE)] = apart
    shared = values["zookeeper.connect"] is not None
    combined.attributes["listeners_between_brokers"] = frozenset(
        filter(None, (name, apart) if shared else ())
    )
    if listeners:  # else their own problem has been reported
        combined.problems.extend(problem_line(*problem) for problem in unfit)
    for listener in listeners:
        if uses_tls(values, listener):
            wrong = problems_of(tls_settings(values, listener))
            combined.problems.extend(problem_line(*problem) for problem in wrong)


def _sasl(values: Mapping[str, Value], combined: Combined) -> None:
    listeners = combined.attributes["listeners"]
    all_here = listeners if isinstance(listeners, tuple) else ()
    open_here = [listener for listener in all_here if listener.protocol in SASL_PROTOCOLS]
    combined.attributes["sasl"] = {}
    if not open_here:
        return
    # Imported for a broker with such a listener.
    from headrace.config.authentication.sasl import BETWEEN_BROKERS, login_problem, sasl_listeners

    found, wrong = sasl_listeners(open_here, ListenerValues(values))
    combined.attributes["sasl"] = found
    combined.problems.extend(problem_line(*problem) for problem in wrong)
    among = combined.attributes["listeners_between_brokers"]
    for listener in sorted(among) if isinstance(among, frozenset) and not wrong else ():
        if listener in found:
            problem = login_problem(listener, str(values[BETWEEN_BROKERS]), found[listener])
            combined.problems.extend(() if problem is None else [problem_line(*problem)])


def _connections(values: Mapping[str, Value], combined: Combined) -> None:
    listeners = combined.attributes["listeners"]
    among = combined.attributes["listeners_between_brokers"]
    try:
        combined.attributes["connection_limits"] = connection_limits(
            listeners if isinstance(listeners, tuple) else (),
            values,
            among if isinstance(among, frozenset) else frozenset(),
        )
    except ValueError as error:
        key = "max.connections.per.ip.overrides"
        combined.problems.append(problem_line(key, str(values[key]), str(error)))


def _metrics(values: Mapping[str, Value], combined: Combined) -> None:
    text = str(values["metrics.listener"])
    try:
        address = parse_address(text) if text else None
        combined.attributes["metrics_address"] = address
    except ValueError as error:
        combined.problems.append(problem_line("metrics.listener", text, str(error)))
        return
    listeners = combined.attributes["listeners"]
    tls = metrics_tls(values, listeners if isinstance(listeners, tuple) else ())
    if tls is not None:
        combined.problems.extend(problem_line(*problem) for problem in problems_of(tls))
    if address is not None and not values["insecure.listeners"]:
        listener = Listener("", address[0], address[1], "PLAINTEXT" if tls is None else "SSL")
        if tls is None:
            problem = refusal_of_plain(listener)
        else:
            required = tls.client_auth == "required"
            problem = refusal_of_metrics(listener, requires_certificate=required)
        if problem:
            combined.problems.append(problem_line("metrics.listener", text, problem))


def _words(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0

"""The broker's configuration, read from a properties file, the environment and flags.

`load` is the only entry point. A `BrokerConfig` has each key as a typed attribute, with underscores
for dots; if a coarser key was set instead (`log.retention.hours`), the attribute has its value.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.cross_key_rules import combine, doubtful, problem_line
from headrace.config.definitions import (
    BROKER,
    BrokerKeys,
    known_but_unused,
    nearest_broker_key,
    used_definition,
)
from headrace.config.former_keys import translate
from headrace.config.keys.row import attribute, stand_in
from headrace.config.listener_keys import ListenerValues
from headrace.config.listeners import (
    INTER_BROKER,
    INTER_BROKER_PROTOCOL,
    METRICS_PREFIX_NAME,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
)
from headrace.config.properties import parse
from headrace.config.tls_settings import metrics_tls
from headrace.config.value_types import Value
from headrace.model.errors import ConfigError

if TYPE_CHECKING:
    from headrace.config.authentication.sasl import SaslListener

VARIABLE_PREFIX = "HEADRACE_"
_OTHER_VARIABLES = frozenset(
    {"HEADRACE_BOOTSTRAP", "HEADRACE_COMMAND_CONFIG", "HEADRACE_JAVA", "HEADRACE_NUMBA"}
)
"""Environment variables with our prefix that are not broker keys."""
_ONE_OF_TWO = f"{INTER_BROKER} is set, and that listener says what is spoken: give one of the two"


class Source(Enum):
    """The source of a value, weakest first: a later one overrides an earlier one."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


_UNUSED = "{}: a key of Kafka's that Headrace does not use; it has no effect"


class BrokerConfig(BrokerKeys):
    """All settings of one broker, checked. Immutable by convention.

    `updated` returns another one.
    """

    metrics_address: tuple[str, int] | None
    """Host and port of `metrics.listener`; None if it is empty."""

    sasl: Mapping[str, "SaslListener"]
    """How clients of each SASL listener authenticate, by the listener's name."""

    connection_limits: ConnectionLimits
    """Limits on connections per address and per listener."""
    listeners_between_brokers: frozenset[str]
    """The listeners by which brokers of a cluster connect to each other.

    Empty for a single broker.
    """

    def __init__(self, values: Mapping[str, Value], sources: Mapping[str, Source]) -> None:
        """Store checked values by key. ConfigError: they contradict each other."""
        super().__init__(
            **{attribute(name): value for name, value in values.items() if name in BrokerKeys.KEYS}
        )
        self.values = dict(values)
        """Every key's value as given or by default, None if unset.

        Keys of single listeners (`listener.name.<name>.<key>`) are in it if they are set.
        """
        self.sources = dict(sources)
        combined = combine(self.values)
        for name, value in combined.attributes.items():
            setattr(self, name, value)
        if combined.problems:
            raise ConfigError("\n".join(combined.problems))

    def effective(self, name: str) -> Value:
        """Return the value of key `name`, or of a coarser key set instead, as DescribeConfigs does.

        `log.dir` does not replace an unset `log.dirs` here: Kafka shows that as unset.
        """
        value = self.values[name]
        return stand_in(BROKER[name], self.values) if value is None else value

    def updated(self, changes: Mapping[str, Value]) -> "BrokerConfig":
        """Return a configuration with some values changed, as by a dynamic alteration.

        Raises ConfigError.
        """
        return BrokerConfig({**self.values, **changes}, self.sources)


def variable(name: str) -> str:
    """Return a key's environment variable: `log.dirs` → `HEADRACE_LOG_DIRS`."""
    return VARIABLE_PREFIX + name.replace(".", "_").upper()


def load(
    properties: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration from properties text, environment and flags; later ones override.

    Returns it with warnings, one line each. ConfigError lists all wrong values, one line each.
    """
    given: dict[str, tuple[str, Source]] = {}
    warnings: list[str] = []
    given.update((name, (text, Source.FILE)) for name, text in parse(properties).items())
    given.update(_from_environment(environ or {}, warnings))
    given.update((name, (text, Source.FLAG)) for name, text in (flags or {}).items())
    translate(given, warnings)
    values = {name: definition.default for name, definition in BROKER.items()}
    sources = dict.fromkeys(BROKER, Source.DEFAULT)
    problems: list[str] = []
    for name, (text, source) in given.items():
        if name in BROKER and BROKER[name].altered_only:
            warnings.append(
                f"{name}: taken at run time only, as by Kafka, and without effect here: use"
                " kafka-configs, or headrace cluster reassign --throttle"
            )
        elif (definition := used_definition(name)) is not None:
            try:
                values[name] = definition.parse(text)
                sources[name] = source
                if not definition.in_use:
                    warnings.append(_UNUSED.format(name))
            except ValueError as error:
                shown = "…" if definition.sensitive else text
                problems.append(problem_line(name, shown, str(error)))
        elif known_but_unused(name):
            warnings.append(_UNUSED.format(name))
        else:
            problems.append(_unknown(name))
    if Source.DEFAULT not in (sources[INTER_BROKER], sources[INTER_BROKER_PROTOCOL]):
        text = str(values[INTER_BROKER_PROTOCOL])
        problems.append(problem_line(INTER_BROKER_PROTOCOL, text, _ONE_OF_TWO))
    if problems:
        try:
            BrokerConfig(values, sources)
        except ConfigError as error:
            problems.append(str(error))
        raise ConfigError("\n".join(problems))
    config = BrokerConfig(values, sources)
    protocols = {listener.name: listener.protocol for listener in config.listeners}
    if metrics_tls(values, config.listeners) is not None:
        protocols[METRICS_PREFIX_NAME] = "SSL"
    for key in ListenerValues(values).unheard(protocols):
        kind = {SASL_PROTOCOLS: "SASL ", TLS_PROTOCOLS: "TLS "}.get(key.protocols, "")
        warnings.append(f"{key.full}: there is no {kind}listener of that name; it has no effect")
    return config, warnings + doubtful(values)


def _from_environment(
    environ: Mapping[str, str], warnings: list[str]
) -> dict[str, tuple[str, Source]]:
    names = {variable(name): name for name in BROKER}
    given: dict[str, tuple[str, Source]] = {}
    for name, text in environ.items():
        if name in names:
            given[names[name]] = (text, Source.ENVIRONMENT)
        elif name.startswith(VARIABLE_PREFIX) and name not in _OTHER_VARIABLES:
            # Only a warning: Kubernetes sets HEADRACE_PORT and others in every container of a
            # namespace that has a service named headrace.
            warnings.append(f"{name}: the environment has it, but it is no key's variable")
    return given


def _unknown(name: str) -> str:
    # The value is not shown: the mistyped key may be that of a password.
    near = nearest_broker_key(name)
    return f"{name}: no such key" + (f"; did you mean {near}?" if near else "")

"""What keys mean together: coarser ones stand in for finer, and bounds hold between them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.config.listeners import LISTENER_KEYS, configured, parse_address
from headrace.config.value_types import LONG_MAX, Value

if TYPE_CHECKING:
    from headrace.config.broker import BrokerConfig

SEGMENT_BYTES_KAFKA_4_MIN = 1 << 20


def combine(config: "BrokerConfig", values: Mapping[str, Value]) -> list[str]:
    """Set the attributes that come of several keys; return what is wrong, a line each."""
    problems: list[str] = []
    if values["node.id"] is not None:
        if values["broker.id"] not in {-1, values["node.id"]}:
            problems.append(
                problem_line(
                    "node.id", str(values["node.id"]), f"but broker.id={values['broker.id']}"
                )
            )
        config.broker_id = _int(values["node.id"])
    config.log_dirs = tuple(filter(None, _words(values["log.dirs"])))
    if not config.log_dirs:
        config.log_dirs = (str(values["log.dir"]),)
        named = "log.dir" if values["log.dirs"] is None else "log.dirs"
        if values["log.dirs"] is not None or not values["log.dir"]:
            problems.append(problem_line(named, "", "names no directory"))
    if len(set(config.log_dirs)) < len(config.log_dirs):
        problems.append(problem_line("log.dirs", ",".join(config.log_dirs), "a directory twice"))
    _combine_times(config, values)
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        problems.append(
            problem_line(
                "group.min.session.timeout.ms",
                str(config.group_min_session_timeout_ms),
                f"more than group.max.session.timeout.ms={config.group_max_session_timeout_ms}",
            )
        )
    problems.extend(_outside_bounds(values))
    problems.extend(_combine_listeners(config, values))
    config.metrics_address = None
    if values["metrics.listener"]:
        try:
            config.metrics_address = parse_address(str(values["metrics.listener"]))
        except ValueError as error:
            problems.append(
                problem_line("metrics.listener", str(values["metrics.listener"]), str(error))
            )
    return problems


def _outside_bounds(values: Mapping[str, Value]) -> list[str]:
    """What the broker gives groups by default must be what single groups may be given."""
    problems = []
    for name, value in values.items():
        if name.startswith("group.consumer.min."):
            what = name.removeprefix("group.consumer.min.")
            given = _int(values[f"group.consumer.{what}"])
            low, high = _int(value), _int(values[f"group.consumer.max.{what}"])
            if not low <= given <= high:
                problems.append(
                    problem_line(
                        f"group.consumer.{what}",
                        str(given),
                        f"not between {name}={low} and group.consumer.max.{what}={high}",
                    )
                )
    return problems


def _combine_times(config: "BrokerConfig", values: Mapping[str, Value]) -> None:
    """Coarser units stand in for finer ones; -1 stays -1."""
    if values["log.retention.ms"] is None:
        if values["log.retention.minutes"] is not None:
            config.log_retention_ms = _scaled(values["log.retention.minutes"], 60_000)
        else:
            config.log_retention_ms = _scaled(values["log.retention.hours"], 3_600_000)
    if values["log.roll.ms"] is None:
        config.log_roll_ms = _scaled(values["log.roll.hours"], 3_600_000)
    if values["log.roll.jitter.ms"] is None:
        config.log_roll_jitter_ms = _scaled(values["log.roll.jitter.hours"], 3_600_000)
    if values["log.flush.interval.ms"] is None:
        config.log_flush_interval_ms = _int(values["log.flush.scheduler.interval.ms"])


def _combine_listeners(config: "BrokerConfig", values: Mapping[str, Value]) -> list[str]:
    given = {key: _words(values[key]) for key in LISTENER_KEYS}
    config.listeners, config.advertised_listeners, wrong = configured(
        given, insecure=config.insecure_listeners
    )
    return [problem_line(*one) for one in wrong]


def doubtful(config: "BrokerConfig") -> list[str]:
    """What is allowed and may not be what was meant, a line each."""
    warnings = []
    if config.log_segment_bytes < SEGMENT_BYTES_KAFKA_4_MIN:
        warnings.append(
            f"log.segment.bytes={config.log_segment_bytes}: Kafka 4 refuses less than 1 MiB;"
            " many small files cost time"
        )
    if config.default_replication_factor > 1:
        warnings.append(
            f"default.replication.factor={config.default_replication_factor}: there is one broker;"
            " topics that name no factor of their own cannot be created"
        )
    if config.min_insync_replicas > 1:
        warnings.append(
            f"min.insync.replicas={config.min_insync_replicas}: there is one broker; acks=all is"
            " answered NOT_ENOUGH_REPLICAS"
        )
    if _words(config.values["controller.listener.names"]):
        warnings.append(
            "controller.listener.names: there is no KRaft controller here to listen for"
        )
    return warnings


def _words(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _scaled(value: Value, factor: int) -> int:
    number = _int(value)
    return number if number < 0 else min(number * factor, LONG_MAX)


def problem_line(name: str, text: str, reason: str) -> str:
    """What is wrong with a key's value, as it is told."""
    return f"{name}={text}: {reason}"

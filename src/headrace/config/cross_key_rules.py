"""What keys mean together: coarser ones stand in for finer, and bounds hold between them."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.config.listeners import LISTENER_KEYS, configured, parse_address
from headrace.config.value_types import LONG_MAX, Value

SEGMENT_BYTES_KAFKA_4_MIN = 1 << 20


class Combined(NamedTuple):
    """What comes of several keys."""

    attributes: dict[str, object]
    """By the name that `BrokerConfig` has them by."""
    problems: list[str]
    """What is wrong, a line each."""


def combine(values: Mapping[str, Value]) -> Combined:
    """Work out the attributes that come of several keys."""
    attributes: dict[str, object] = {}
    problems: list[str] = []
    if values["node.id"] is not None:
        if values["broker.id"] not in {-1, values["node.id"]}:
            problems.append(
                problem_line(
                    "node.id", str(values["node.id"]), f"but broker.id={values['broker.id']}"
                )
            )
        attributes["broker_id"] = _int(values["node.id"])
    log_dirs = tuple(filter(None, _words(values["log.dirs"])))
    if not log_dirs:
        log_dirs = (str(values["log.dir"]),)
        named = "log.dir" if values["log.dirs"] is None else "log.dirs"
        if values["log.dirs"] is not None or not values["log.dir"]:
            problems.append(problem_line(named, "", "names no directory"))
    if len(set(log_dirs)) < len(log_dirs):
        problems.append(problem_line("log.dirs", ",".join(log_dirs), "a directory twice"))
    attributes["log_dirs"] = log_dirs
    attributes.update(_combined_times(values))
    shortest = _int(values["group.min.session.timeout.ms"])
    longest = _int(values["group.max.session.timeout.ms"])
    if shortest > longest:
        problems.append(
            problem_line(
                "group.min.session.timeout.ms",
                str(shortest),
                f"more than group.max.session.timeout.ms={longest}",
            )
        )
    problems.extend(_outside_bounds(values))
    given = {key: _words(values[key]) for key in LISTENER_KEYS}
    listeners, advertised, wrong = configured(given, insecure=bool(values["insecure.listeners"]))
    attributes |= {"listeners": listeners, "advertised_listeners": advertised}
    problems.extend(problem_line(*one) for one in wrong)
    attributes["metrics_address"] = None
    if values["metrics.listener"]:
        try:
            attributes["metrics_address"] = parse_address(str(values["metrics.listener"]))
        except ValueError as error:
            problems.append(
                problem_line("metrics.listener", str(values["metrics.listener"]), str(error))
            )
    return Combined(attributes, problems)


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


def _combined_times(values: Mapping[str, Value]) -> dict[str, int]:
    """What coarser units say where they stand in for finer ones; -1 stays -1."""
    found: dict[str, int] = {}
    if values["log.retention.ms"] is None:
        if values["log.retention.minutes"] is not None:
            found["log_retention_ms"] = _scaled(values["log.retention.minutes"], 60_000)
        else:
            found["log_retention_ms"] = _scaled(values["log.retention.hours"], 3_600_000)
    if values["log.roll.ms"] is None:
        found["log_roll_ms"] = _scaled(values["log.roll.hours"], 3_600_000)
    if values["log.roll.jitter.ms"] is None:
        found["log_roll_jitter_ms"] = _scaled(values["log.roll.jitter.hours"], 3_600_000)
    if values["log.flush.interval.ms"] is None:
        found["log_flush_interval_ms"] = _int(values["log.flush.scheduler.interval.ms"])
    return found


def doubtful(values: Mapping[str, Value]) -> list[str]:
    """What is allowed and may not be what was meant, a line each."""
    warnings = []
    if _int(values["log.segment.bytes"]) < SEGMENT_BYTES_KAFKA_4_MIN:
        warnings.append(
            f"log.segment.bytes={values['log.segment.bytes']}: Kafka 4 refuses less than 1 MiB;"
            " many small files cost time"
        )
    factor = _int(values["default.replication.factor"])
    if factor > 1:
        warnings.append(
            f"default.replication.factor={factor}: there is one broker;"
            " topics that name no factor of their own cannot be created"
        )
    if _int(values["min.insync.replicas"]) > 1:
        warnings.append(
            f"min.insync.replicas={values['min.insync.replicas']}: there is one broker; acks=all is"
            " answered NOT_ENOUGH_REPLICAS"
        )
    if _words(values["controller.listener.names"]):
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

"""The source's options: those of Spark's own Kafka connector, and a few of ours.

Names are case-insensitive. Invalid options are refused with name, value and reason before any
connection is opened. Ours: `maxBytesPerTrigger`, `maxBytesPerPartition`, `startingTimestampOn`,
`columns`, `includeAmqp`, `configFile`, `valueSchema`, `valueParser`, `mode`,
`columnNameOfCorruptRecord`, those of the quarantine; `bootstrap.servers` and `isolation.level` as
short forms.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.arrow.read.columns import AMQP, COLUMNS, HEADERS
from headrace.arrow.typed.typed_rows import RECORD_COLUMNS, Decoding
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.config.client_settings import is_security
from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions, perhaps
from headrace.spark.quarantine.options import SOURCE_NAMES, SourceQuarantine
from headrace.spark.security import NO_SECURITY, Security, given_client
from headrace.spark.source.kafka_options import (
    FORBIDDEN,
    IGNORED,
    OTHERS,
    USED,
    checked_bootstrap,
)
from headrace.spark.source.parsed_values import PARSER
from headrace.spark.source.plan import Splitting
from headrace.spark.source.typed_values import (
    UNKNOWN_KEYS,
    given_quarantine,
    given_typed,
    given_unknown_keys,
)

Partitions = dict[str, dict[int, int]]
"""A number (an offset or a timestamp) by topic and partition."""

_MS_PER_UNIT = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000


class Strategy(Enum):
    """How topics are chosen; values are the option names."""

    SUBSCRIBE = "subscribe"
    PATTERN = "subscribePattern"
    ASSIGN = "assign"


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: of named topics, of topics that match a pattern, or by number."""

    strategy: Strategy
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def matches(self, topic: str) -> bool:
        """Return whether the pattern matches the topic's whole name."""
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class Bound:
    """Where reading starts or ends: by the first of timestamp, timestamps and offsets that is
    set."""

    timestamp: int | None = None
    """A timestamp for all partitions, in ms since 1970."""
    timestamps: Partitions | None = None
    offsets: int | Partitions = EARLIEST
    """EARLIEST or LATEST for all partitions, or an offset (or one of the two) for each."""
    latest_without_match: bool = False
    """Whether a partition without a record at or after the timestamp is read from its end; else an
    error."""


@dataclass(frozen=True)
class Fetching:
    """Client settings with which the driver and tasks fetch."""

    client_id: str = "headrace-spark"
    read_committed: bool = False
    max_bytes: int = 50 << 20
    partition_bytes: int = 4 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    poll_timeout_ms: int = 120_000
    retries: int = 3
    retry_interval_ms: int = 1000
    security: Security = NO_SECURITY


@dataclass(frozen=True)
class Options:
    """All options of one source, validated."""

    bootstrap: str
    subscription: Subscription
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    fetching: Fetching
    group: str | None
    group_prefix: str | None
    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    splitting: Splitting
    start_by_time_always: bool
    """`startingTimestampOn=everyStart`: each start skips records older than the starting
    timestamp."""
    typed: Decoding | None
    """How values are decoded; None: rows have the connector's columns."""
    unknown_keys: str | None
    """Directory for the counts of keys that the schema does not declare; None: not counted."""
    quarantine: SourceQuarantine | None
    """The options of `mode=QUARANTINE`; None in other modes."""
    ignored: tuple[str, ...]
    """Names of accepted Kafka options that have no effect here, for a warning."""


_NAMES = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets",
    "endingTimestamp", "endingOffsetsByTimestamp", "failOnDataLoss", "maxOffsetsPerTrigger",
    "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "maxBytesPerPartition", "includeHeaders", "includeAmqp",
    "groupIdPrefix",
    "bootstrap.servers", "isolation.level", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "startingTimestampOn", "columns",
    "configFile", "valueSchema", "mode", "columnNameOfCorruptRecord", PARSER, UNKNOWN_KEYS,
    *SOURCE_NAMES,
)  # fmt: skip
_ENDING = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "startingTimestampOn",
)  # fmt: skip


def parse_options(options: Mapping[str, str], *, streaming: bool) -> Options:
    """Validate all options of a batch or streaming read; OptionError names the invalid one."""
    given = GivenOptions(options)
    ignored = _check_names(given)
    if streaming:
        for name in _ENDING:
            if name in given:
                raise OptionError(f"{name}: a streaming query has no end; it is for batch reads")
    else:
        ignored += [name for name in _STREAM_ONLY if name in given]
    client = given_client(given)
    starting = _starting(given, streaming=streaming)
    ending = _ending(given)
    group, prefix = given.text("kafka.group.id"), given.text("groupIdPrefix")
    for name, value in (("kafka.group.id", group), ("groupIdPrefix", prefix)):
        if value is not None and not value.strip():
            raise OptionError(f"{name}: an empty name is none")
    columns = _columns(given)
    typed = given_typed(given, columns)
    return Options(
        bootstrap=checked_bootstrap(client.bootstrap),
        subscription=_subscription(given),
        starting=starting,
        ending=ending,
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        columns=columns,
        fetching=_fetching(given, client.security),
        group=group,
        group_prefix=None if group else prefix,
        max_offsets=given.number("maxOffsetsPerTrigger") if streaming else None,
        max_bytes=given.number("maxBytesPerTrigger") if streaming else None,
        min_offsets=_min_offsets(given) if streaming else None,
        max_trigger_delay_ms=_delay(given),
        splitting=Splitting(
            given.number("minPartitions"),
            given.number("maxRecordsPerPartition"),
            given.number("maxBytesPerPartition"),
        ),
        start_by_time_always=_start_by_time_always(given, starting) if streaming else False,
        typed=typed,
        unknown_keys=given_unknown_keys(given),
        quarantine=given_quarantine(given, typed),
        ignored=(*ignored, *client.ignored),
    )


def _check_names(given: GivenOptions) -> list[str]:
    """Refuse unknown and forbidden options; return those that have no effect."""
    known = {name.lower() for name in _NAMES}
    ignored = []
    for lower, spelled in given.names():
        # Spark's own options begin with two underscores.
        if lower in known or lower.startswith("__"):
            continue
        if lower in OTHERS:
            raise OptionError(f"{spelled}: {OTHERS[lower]}")
        if not lower.startswith("kafka."):
            raise OptionError(f"{spelled}: no such option{perhaps(lower, _NAMES)}")
        key = lower.removeprefix("kafka.")
        if key in FORBIDDEN:
            raise OptionError(f"{spelled}: cannot be set here: {FORBIDDEN[key]}")
        if key in USED or is_security(key):
            continue
        if key not in IGNORED:
            raise OptionError(f"{spelled}: Kafka has no such consumer setting{perhaps(key, USED)}")
        ignored.append(spelled)
    return ignored


def _subscription(given: GivenOptions) -> Subscription:
    chosen = [strategy for strategy in Strategy if strategy.value in given]
    if len(chosen) != 1:
        names = ", ".join(strategy.value for strategy in Strategy)
        what = "only one" if chosen else "one"
        raise OptionError(f"{what} of {names} must be given")
    strategy = chosen[0]
    text = (given.text(strategy.value) or "").strip()
    if strategy is Strategy.PATTERN:
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern: {text!r} is no pattern: {error}") from None
        if not text:
            raise OptionError("subscribePattern: empty")
        return Subscription(strategy, pattern=text)
    if strategy is Strategy.SUBSCRIBE:
        topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
        if not topics:
            raise OptionError("subscribe: no topic named")
        return Subscription(strategy, topics=topics)
    return Subscription(strategy, assigned=_assigned(text))


def _assigned(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    wanted = 'assign: must be like {"orders":[0,1]}'
    try:
        parsed = json.loads(text)
    except ValueError:
        raise OptionError(wanted) from None
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(wanted)
    assigned = []
    for topic, numbers in sorted(parsed.items()):
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise OptionError(f"{wanted}, not {topic!r}: {json.dumps(numbers)}")
        if not numbers:
            raise OptionError(
                f"assign: no partition of {topic} is named: leave it out, or name some"
            )
        assigned.append((topic, tuple(sorted(set(numbers)))))
    return tuple(assigned)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _by_partition(name: str, text: str, least: int, wanted: str = "like") -> Partitions:
    """Parse a JSON object of numbers by topic and partition; `wanted`: how the error text
    begins."""
    example = '{"orders":{"0":23,"1":-2}}' if least < 0 else '{"orders":{"0":1700000000000}}'
    wanted = f"{name}: must be {wanted} {example}"
    try:
        parsed = json.loads(text)
        by_topic = {
            topic: {int(partition): number for partition, number in numbers.items()}
            for topic, numbers in parsed.items()
        }
    except (ValueError, AttributeError):
        raise OptionError(f"{wanted}, not {text!r}") from None
    for topic, numbers in by_topic.items():
        for partition, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise OptionError(f"{name}: {json.dumps(number)} cannot be for {topic}-{partition}")
    return by_topic


def _starting(given: GivenOptions, *, streaming: bool) -> Bound:
    default = LATEST if streaming else EARLIEST
    latest = given.choice(
        "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, False
    )
    bound = _bound(given, "starting", default, latest_without_match=latest)
    if not streaming and _mentions(bound, LATEST):
        raise OptionError("startingOffsets: a batch read that starts at latest reads nothing")
    return bound


def _start_by_time_always(given: GivenOptions, starting: Bound) -> bool:
    always = given.choice("startingTimestampOn", {"firststart": False, "everystart": True}, False)
    if always and starting.timestamp is None and starting.timestamps is None:
        raise OptionError(
            "startingTimestampOn: everyStart needs startingTimestamp or startingOffsetsByTimestamp"
        )
    return bool(always)


def _ending(given: GivenOptions) -> Bound:
    bound = _bound(given, "ending", LATEST, latest_without_match=True)
    if _mentions(bound, EARLIEST):
        raise OptionError("endingOffsets: a read that ends at earliest reads nothing")
    return bound


def _mentions(bound: Bound, special: int) -> bool:
    if bound.timestamp is not None or bound.timestamps is not None:
        return False
    if isinstance(bound.offsets, int):
        return bound.offsets == special
    return any(special in numbers.values() for numbers in bound.offsets.values())


def _bound(given: GivenOptions, which: str, default: int, *, latest_without_match: bool) -> Bound:
    by_time = given.text(f"{which}OffsetsByTimestamp")
    timestamps = None
    if by_time is not None:
        timestamps = _by_partition(f"{which}OffsetsByTimestamp", by_time, 0)
    text = given.text(f"{which}Offsets")
    offsets: int | Partitions = default
    if text is not None:
        words = {"earliest": EARLIEST, "latest": LATEST}
        stripped = text.strip().lower()
        if stripped in words:
            offsets = words[stripped]
        else:
            wanted = "earliest, latest, or like" if which == "starting" else "latest, or like"
            offsets = _by_partition(f"{which}Offsets", text, EARLIEST, wanted)
    return Bound(given.number(f"{which}Timestamp", 0), timestamps, offsets, latest_without_match)


def _columns(given: GivenOptions) -> tuple[str, ...]:
    included = {
        HEADERS: given.flag("includeHeaders", False),
        AMQP: given.flag("includeAmqp", False),
    }
    text = given.text("columns")
    if text is None:
        usual = RECORD_COLUMNS if "valueSchema" in given else COLUMNS
        return (*usual, *(name for name, wanted in included.items() if wanted))
    spelled = {name.lower(): name for name in (*COLUMNS, *included)}
    columns = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word.lower() not in spelled:
            raise OptionError(f"columns: {word!r} is not one of {', '.join(spelled.values())}")
        columns.append(spelled[word.lower()])
    if not columns or len(set(columns)) < len(columns):
        raise OptionError(f"columns: {text!r} names none, or one twice")
    return tuple(columns)


def _fetching(given: GivenOptions, security: Security) -> Fetching:
    def number(name: str, default: int, least: int = 1) -> int:
        value = given.number(name, least)
        return default if value is None else value

    usual = Fetching()
    levels = {"read_uncommitted": False, "read_committed": True}
    return Fetching(
        client_id=given.text("kafka.client.id") or usual.client_id,
        read_committed=given.choice(
            "isolation.level", levels, given.choice("kafka.isolation.level", levels, False)
        ),
        max_bytes=number("kafka.fetch.max.bytes", usual.max_bytes),
        partition_bytes=number("kafka.max.partition.fetch.bytes", usual.partition_bytes),
        min_bytes=number("kafka.fetch.min.bytes", usual.min_bytes, 0),
        max_wait_ms=number("kafka.fetch.max.wait.ms", usual.max_wait_ms, 0),
        request_timeout_ms=number("kafka.request.timeout.ms", usual.request_timeout_ms),
        poll_timeout_ms=number("kafkaConsumer.pollTimeoutMs", usual.poll_timeout_ms),
        retries=number("fetchOffset.numRetries", usual.retries, 0),
        retry_interval_ms=number("fetchOffset.retryIntervalMs", usual.retry_interval_ms, 0),
        security=security,
    )


def _min_offsets(given: GivenOptions) -> int | None:
    least, most = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger {most}")
    return least


def _delay(given: GivenOptions) -> int:
    text = given.text("maxTriggerDelay")
    if text is None:
        return _DEFAULT_TRIGGER_DELAY_MS
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = _MS_PER_UNIT.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise OptionError(f"maxTriggerDelay: {text!r} is not like 15m, 30s or 500ms")
    return int(match[1]) * unit

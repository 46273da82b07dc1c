"""`Telemetry`: client metrics (KIP-714): subscriptions, push intervals, and the pushed series.

Subscriptions are the settings of client metrics resources. Pushed metrics become series with the
client's id, limited in number; `/metrics` exports them. For the deciding thread.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.config.entity_settings import EntityConfigs
from headrace.config.keys.entities import CLIENT_METRICS, match_patterns
from headrace.log.text_files import encode_uuid
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.clock import Clock, Random
from headrace.record.compression import Codec
from headrace.record.crc32c import crc32c
from headrace.wire.otlp import Point

ALL_METRICS = "*"
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Accepted codecs, in the order that clients should try them."""
INSTANCES_MAX = 16_384
"""Most client instances remembered; the least recently heard must subscribe again."""
SERIES_SECONDS_MAX = 3600.0
"""Seconds without a push after which a series is dropped."""
TEXT_MAX = 200
"""Longer names and attributes are shortened; longer client ids match no pattern."""
_DEFAULT_INTERVAL_MS = 300_000
_RESERVED = frozenset({bytes(16), bytes(15) + b"\x01"})

Series = tuple[str, str, str]
"""Key of a series: metric, client id, attributes."""


class Client(NamedTuple):
    """The client properties that a subscription's `match` patterns test."""

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int


class Subscription(NamedTuple):
    """The metrics that one client instance is asked to push, and how often."""

    instance: bytes
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


@dataclass(slots=True)
class _Instance:
    subscription: Subscription
    version: int
    last_get: float = float("-inf")
    last_push: float = float("-inf")
    terminating: bool = False
    ask_again: bool = False
    """Whether its last push was refused in a way that makes it subscribe again."""


@dataclass(slots=True)
class _Value:
    number: float
    told: float = field(default=0.0)


class Telemetry:
    """Subscriptions, the client instances that push, and their series."""

    def __init__(
        self, configs: EntityConfigs, clock: Clock, random: Random, bytes_max: int, series_max: int
    ) -> None:
        """Make the telemetry with its limits.

        `bytes_max`: of one push, compressed or not; `series_max`: of series stored at one time.
        """
        self.bytes_max = bytes_max
        self.dropped = 0
        """Number of pushed values dropped because of the limit of series."""
        self._configs = configs
        self._now = clock.monotonic
        self._random = random
        self._series_max = series_max
        self._version = 0
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._series: dict[Series, _Value] = {}
        configs.changed.append(self._changed)

    def _changed(self, name: str) -> None:
        del name
        self._version += 1

    # --- subscribing -----------------------------------------------------------------------------

    def subscribe(self, instance: bytes | None, client: Client) -> Subscription:
        """Return the subscription of a client instance; one without an id gets one.

        ApiError THROTTLING_QUOTA_EXCEEDED if it asks again before its interval is over.
        """
        if instance is None or instance == bytes(16):
            instance = self._random.uuid()
        known = self._instance(instance, client)
        now = self._now()
        if not self._due(known, max(known.last_get, known.last_push), now) and not known.ask_again:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "the client asked again before its push interval was over",
            )
        known.last_get = now
        known.ask_again = False
        return known.subscription

    def check_push(
        self,
        instance: bytes | None,
        client: Client,
        *,
        subscription_id: int,
        codec: int,
        size: int,
        terminating: bool,
    ) -> None:
        """Raise ApiError, with Kafka's codes, for a push that must be refused."""
        if instance is None or instance in _RESERVED:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no client instance id")
        known = self._instance(instance, client)
        ended, known.terminating = known.terminating, terminating
        try:
            self._check(known, ended, subscription_id, codec, size, terminating)
        except ApiError as error:
            known.ask_again = error.code in (
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            )
            raise

    def _check(
        self,
        known: _Instance,
        ended: bool,
        subscription_id: int,
        codec: int,
        size: int,
        terminating: bool,
    ) -> None:
        now = self._now()
        if ended:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the client has pushed its last metrics")
        if known.last_get > known.last_push or self._due(known, known.last_push, now):
            known.last_push = now
        elif not terminating:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "the client pushed before its push interval was over",
            )
        if subscription_id != known.subscription.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec not in (Codec.NONE, *ACCEPTED_CODECS):
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} does not exist")
        if size > self.bytes_max:
            raise ApiError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"{size} bytes of metrics exceed telemetry.max.bytes={self.bytes_max}",
            )

    @staticmethod
    def _due(known: _Instance, last: float, now: float) -> bool:
        return now - last >= known.subscription.interval_ms / 1000

    def _instance(self, instance: bytes, client: Client) -> _Instance:
        found = self._instances.get(instance)
        if found is None or found.version < self._version:
            # New subscription: earlier requests no longer count for its interval.
            made = _Instance(self._subscription(instance, client), self._version)
            if found is not None:
                made.terminating = found.terminating
            self._instances[instance] = found = made
            if len(self._instances) > INSTANCES_MAX:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance)
        return found

    def _subscription(self, instance: bytes, client: Client) -> Subscription:
        metrics: set[str] = set()
        interval_ms = _DEFAULT_INTERVAL_MS
        for texts in self._configs.texts.values():
            wanted, match, its_interval_ms = _parsed(texts)
            if all(_matches(pattern, _asked(client, instance, name))
                   for name, pattern in match.items()):  # fmt: skip
                metrics.update(wanted)
                interval_ms = min(interval_ms, its_interval_ms)
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        names = tuple(sorted(metrics))
        number = crc32c(f"{names}{interval_ms}".encode()) ^ crc32c(instance)
        number -= (number & 1 << 31) << 1  # to a signed 32-bit number
        return Subscription(instance, number, names, interval_ms)

    # --- what is pushed --------------------------------------------------------------------------

    def take(self, client: Client, points: Iterable[Point]) -> None:
        """Store the values that a client pushed."""
        now = self._now()
        client_id = client.client_id[:TEXT_MAX]
        for point in points:
            attributes = ",".join(f"{name}={text}" for name, text in point.attributes)
            key = (point.metric[:TEXT_MAX], client_id, attributes[:TEXT_MAX])
            known = self._series.get(key)
            if known is None:
                if len(self._series) >= self._series_max and not self._forget(now):
                    self.dropped += 1
                    continue
                known = self._series[key] = _Value(0.0)
            known.number = known.number + point.value if point.added else point.value
            known.told = now

    def _forget(self, now: float) -> bool:
        """Drop series without recent pushes if the oldest is due; return whether there is room."""
        if self._series:
            oldest = min(series.told for series in self._series.values())
            if now - oldest >= SERIES_SECONDS_MAX:
                self._series = dict(self._fresh(now))
        return len(self._series) < self._series_max

    def _fresh(self, now: float) -> Iterator[tuple[Series, _Value]]:
        for key, value in self._series.items():
            if now - value.told < SERIES_SECONDS_MAX:
                yield key, value

    def series(self) -> Mapping[Series, float]:
        """Return all series pushed in the last hour; delta sums are added up."""
        return {key: value.number for key, value in self._fresh(self._now())}


def _parsed(texts: Mapping[str, str]) -> tuple[tuple[str, ...], Mapping[str, re.Pattern[str]], int]:
    """Return a subscription's metrics, match patterns and interval in ms.

    A subscription with invalid settings has no metrics.
    """
    try:
        values = {name: CLIENT_METRICS[name].parse(text) for name, text in texts.items()}
        match = match_patterns(values.get("match"))
    except (KeyError, ValueError):
        return (), {}, _DEFAULT_INTERVAL_MS
    metrics, interval = values.get("metrics"), values.get("interval.ms")
    return (
        metrics if isinstance(metrics, tuple) else (),
        match,
        interval if isinstance(interval, int) else _DEFAULT_INTERVAL_MS,
    )


def _asked(client: Client, instance: bytes, name: str) -> str:
    """Return the client's value of the attribute `name` (KIP-714), for a subscription's `match`."""
    match name:
        case "client_instance_id":
            return encode_uuid(instance)
        case "client_id":
            return client.client_id
        case "client_software_name":
            return client.software_name
        case "client_software_version":
            return client.software_version
        case "client_source_address":
            return client.address
        case _:
            return str(client.port)


def _matches(pattern: "re.Pattern[str]", text: str) -> bool:
    return len(text) <= TEXT_MAX and pattern.fullmatch(text) is not None

"""The sink's options: those of Spark's own Kafka connector, and a few of ours.

Ours: `valueSchema`, `delivery`, `pipeline`, `sink`, `twoPhaseCommit`, and for batch writes
`txnAppId` and `txnVersion`, as in Delta. Invalid options are refused before anything is written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.config.client_settings import is_security
from headrace.record.compression import Codec
from headrace.spark.checks.options import (
    CHECKS,
    RowChecks,
    given_checks,
    refuse_without_quarantine,
)
from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions
from headrace.spark.quarantine.options import SINK_NAMES as QUARANTINE_NAMES
from headrace.spark.quarantine.options import SPOOL, SinkQuarantine, sink_quarantine
from headrace.spark.security import GivenClient, Security, given_client
from headrace.spark.source.kafka_options import checked_bootstrap

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
TRANSACTION_TIMEOUT_MS = 900_000
"""Default timeout of a batch's transactions in ms: the brokers' default maximum."""
_BATCH_BYTES = 256 << 10
_TWO_PHASE = {"auto": None, "true": True, "false": False}
_CODECS = {codec.name.lower(): codec for codec in Codec}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_OURS = (
    "topic", "valueSchema", "delivery", "pipeline", "sink", "twoPhaseCommit", "txnAppId",
    "txnVersion", "checkpointLocation", "bootstrap.servers", "includeHeaders", "path", "queryName",
    "configFile", CHECKS, *QUARANTINE_NAMES,
)  # fmt: skip
_KAFKA = (
    "bootstrap.servers", "client.id", "compression.type", "batch.size", "acks",
    "enable.idempotence", "transaction.timeout.ms", "request.timeout.ms", "delivery.timeout.ms",
)  # fmt: skip
_IGNORED = frozenset((
    "linger.ms", "buffer.memory", "max.in.flight.requests.per.connection", "retries",
    "retry.backoff.ms", "retry.backoff.max.ms", "max.block.ms", "max.request.size",
    "metadata.max.age.ms", "metadata.max.idle.ms", "partitioner.class", "send.buffer.bytes",
    "receive.buffer.bytes", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "connections.max.idle.ms", "enable.metrics.push", "metric.reporters",
))  # fmt: skip
_FORBIDDEN = {
    "key.serializer": "keys are written as the bytes they are",
    "value.serializer": "values are written as the bytes they are",
    "transactional.id": "the sink names its transactions itself: give it pipeline and sink",
    "interceptor.classes": "there is no Java producer here",
}


@dataclass(frozen=True)
class SinkOptions:
    """All options of one sink, validated."""

    bootstrap: str
    security: Security
    topic: str | None
    value_schema: str | None
    """DDL by which values are encoded; None: values are bytes or strings."""
    exactly_once: bool
    pipeline: str
    sink: str
    checkpoint: str | None
    application: str | None
    version: int | None
    two_phase: bool | None
    """Whether to use transactions without timeout (KIP-939); None: if the broker supports them."""
    codec: Codec
    batch_bytes: int
    client_id: str
    transaction_timeout_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    checks: RowChecks | None
    """The checks that the rows were evaluated by; None without."""
    quarantine: SinkQuarantine | None
    """The quarantine that the driver publishes; None without one."""
    ignored: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """Common prefix of the tasks' transactional ids."""
        return f"{self.pipeline}.{self.sink}.task-"

    @property
    def driver_id(self) -> str:
        """Transactional id of the driver, under which batches are decided."""
        return f"{self.pipeline}.{self.sink}.driver"

    @property
    def decisions_topic(self) -> str:
        """Name of the decision topic."""
        return f"{self.pipeline}.{self.sink}.decisions"


def parse_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Validate all options of a batch or streaming write; OptionError names the invalid one."""
    given = GivenOptions(options)
    ignored = _check_names(given)
    exactly_once = given.choice("delivery", {EXACTLY_ONCE: True, AT_LEAST_ONCE: False}, True)
    _check_acks(given)
    application, version = _version(given, streaming=streaming)
    pipeline = given.text("pipeline") or application or ""
    if exactly_once:
        _check_exactly_once(given, pipeline, streaming=streaming)
    client = given_client(given)
    sink = given.text("sink") or "sink"
    for name, value in (("pipeline", pipeline), ("sink", sink)):
        if value and not _NAME.fullmatch(value):
            raise OptionError(f"{name}: {value!r} has other signs than letters, digits, _ and -")
    checks = _checks(given, exactly_once)
    quarantine = _quarantine(given, pipeline, client, exactly_once, streaming=streaming)
    refuse_without_quarantine(checks, quarantine=quarantine is not None)
    return SinkOptions(
        bootstrap=checked_bootstrap(client.bootstrap),
        security=client.security,
        topic=given.text("topic") or None,
        value_schema=given.text("valueSchema"),
        exactly_once=exactly_once,
        pipeline=pipeline,
        sink=sink,
        checkpoint=given.text("checkpointLocation"),
        application=application,
        version=version,
        two_phase=given.choice("twoPhaseCommit", _TWO_PHASE, None),
        codec=given.choice("kafka.compression.type", _CODECS, Codec.NONE),
        batch_bytes=_int32(given, "kafka.batch.size", _BATCH_BYTES),
        client_id=given.text("kafka.client.id") or "headrace-spark",
        transaction_timeout_ms=_int32(
            given, "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS
        ),
        request_timeout_ms=_int32(given, "kafka.request.timeout.ms", 30_000),
        delivery_timeout_ms=_int32(given, "kafka.delivery.timeout.ms", 120_000),
        checks=checks,
        quarantine=quarantine,
        ignored=(*ignored, *client.ignored),
    )


def _checks(given: GivenOptions, exactly_once: bool) -> RowChecks | None:
    if not exactly_once and CHECKS in given:
        raise OptionError(f"{CHECKS}: a batch is checked before it is decided: {EXACTLY_ONCE}")
    return given_checks(given)


def _check_names(given: GivenOptions) -> list[str]:
    known = {name.lower() for name in _OURS}
    ignored = []
    for lower, spelled in given.names():
        if lower == "asyncprogresstrackingenabled":
            if (given.text(spelled) or "").strip().lower() != "false":
                raise OptionError(
                    "asyncProgressTrackingEnabled: the sink decides each batch before the next one"
                    " begins, and cannot with asynchronous progress: leave it out"
                )
        elif lower.startswith("kafka."):
            key = lower.removeprefix("kafka.")
            if key in _FORBIDDEN:
                raise OptionError(f"{spelled}: cannot be set here: {_FORBIDDEN[key]}")
            if key in _IGNORED:
                ignored.append(spelled)
            elif key not in _KAFKA and not is_security(key):
                raise OptionError(f"{spelled}: Kafka has no such producer setting")
        elif lower not in known and not lower.startswith(("__", "asyncprogress")):
            raise OptionError(f"{spelled}: no such option; there are {', '.join(_OURS[:8])}")
    return ignored


def _check_acks(given: GivenOptions) -> None:
    acks = given.text("kafka.acks") or "all"
    if acks not in ("all", "-1"):
        raise OptionError(f"kafka.acks: {acks} can lose what was acknowledged; only all is written")
    if not given.flag("kafka.enable.idempotence", True):
        raise OptionError("kafka.enable.idempotence: the sink always writes idempotently")


def _check_exactly_once(given: GivenOptions, pipeline: str, *, streaming: bool) -> None:
    if not pipeline:
        raise OptionError(
            "pipeline: missing; give the pipeline a name that it keeps when it starts again, or"
            " choose delivery=at_least_once"
        )
    if streaming and not given.text("checkpointLocation"):
        raise OptionError(
            "checkpointLocation: missing; give it as an option of this write, for"
            " delivery=exactly_once tells a repeated batch by it (a setting of the session does"
            " not reach the sink)"
        )


def _quarantine(
    given: GivenOptions, pipeline: str, client: GivenClient, exactly_once: bool, *, streaming: bool
) -> SinkQuarantine | None:
    if not exactly_once and SPOOL in given:
        raise OptionError(f"{SPOOL}: refused records are published once: delivery=exactly_once")
    return sink_quarantine(given, pipeline, client, streaming=streaming)


def _version(given: GivenOptions, *, streaming: bool) -> tuple[str | None, int | None]:
    application, version = given.text("txnAppId"), given.number("txnVersion", 0)
    if (application is None) != (version is None):
        raise OptionError("txnAppId and txnVersion: give both, or neither")
    if streaming and version is not None:
        raise OptionError("txnVersion: a streaming write numbers its batches itself")
    return application, version


def _int32(given: GivenOptions, name: str, default: int) -> int:
    return given.number_or(name, default, most=(1 << 31) - 1)

"""The options of the quarantine, of the source and of both sinks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions
from headrace.spark.quarantine.names import retry_topic
from headrace.spark.quarantine.spool import Spool
from headrace.spark.security import GivenClient, Security
from headrace.spark.source.kafka_options import checked_bootstrap

if TYPE_CHECKING:
    from headrace.client.client import Client

RETENTION_MS = 30 * 24 * 3600 * 1000
"""Default retention of `<topic>.quarantine`."""
SHARE_MAX, RECORDS_MIN = 0.5, 1000
SPOOL, FLOW, PIPELINE, RETENTION, RETRY = (
    "quarantineSpool", "quarantineFlow", "quarantinePipeline", "quarantineRetentionMs",
    "quarantineRetry",
)  # fmt: skip
SHARE, RECORDS, COUNTS = "quarantineShareMax", "quarantineRecordsMin", "quarantineCounts"
SOURCE_NAMES = (SPOOL, FLOW, PIPELINE, RETENTION, RETRY)
SINK_NAMES = (SPOOL, FLOW, PIPELINE, SHARE, RECORDS, COUNTS)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_CLIENT_ID = "headrace-spark"
_REQUEST_SECONDS, _RETRY_SECONDS = 30.0, 120.0


@dataclass(frozen=True)
class SourceQuarantine:
    """The quarantine of a source with `mode=QUARANTINE`."""

    spool: Spool
    pipeline: str
    retention_ms: int
    schema_digest: str
    retry: bool = False
    """Whether the source also reads records that are replayed from the quarantine."""

    def retry_topics(self, topics: Sequence[str]) -> tuple[str, ...]:
        """Return the retry topics of the topics that are read; empty without `retry`."""
        return tuple(retry_topic(self.pipeline, topic) for topic in topics if self.retry)


@dataclass(frozen=True)
class SinkQuarantine:
    """The quarantine that a sink publishes."""

    spool: Spool
    pipeline: str
    bootstrap: str
    security: Security
    share_max: float
    """Share of a topic's last records that may be refused; above it the batch is not written."""
    records_min: int
    """Number of records from which the share counts."""
    counts: Path | None = None
    """Directory to which the numbers of refused records are written by batch; None: nowhere."""

    def client(self) -> "Client":
        """Return a client of the brokers that have the quarantine. Raises OptionError."""
        return self.security.client(
            self.bootstrap,
            client_id=_CLIENT_ID,
            request_timeout_seconds=_REQUEST_SECONDS,
            retry_seconds=_RETRY_SECONDS,
        )


def digest_of_schema(ddl: str) -> str:
    """Return the digest of declared columns in the headers of quarantined records."""
    return blake2b(ddl.encode(), digest_size=8).hexdigest()


def source_quarantine(given: GivenOptions, schema_digest: str) -> SourceQuarantine:
    """Return the source's quarantine. OptionError if an option is missing or invalid."""
    return SourceQuarantine(
        spool=_spool(given, f"mode=QUARANTINE needs {SPOOL}, {FLOW} and {PIPELINE}"),
        pipeline=name_option(given, PIPELINE),
        retention_ms=given.number_or(RETENTION, RETENTION_MS),
        schema_digest=schema_digest,
        retry=_retry(given),
    )


def sink_quarantine(
    given: GivenOptions, pipeline: str, client: GivenClient, *, streaming: bool
) -> SinkQuarantine | None:
    """Return the sink's quarantine; None without `quarantineSpool`. Raises OptionError."""
    if SPOOL not in given:
        refuse_without_spool(given, SINK_NAMES)
        return None
    if not streaming:
        raise OptionError(f"{SPOOL}: only streaming queries have a quarantine")
    if PIPELINE in given:
        pipeline = name_option(given, PIPELINE)
    elif not _NAME.fullmatch(pipeline):
        raise OptionError(
            f"pipeline: {pipeline!r}: with {SPOOL} the name is part of topic names: use letters,"
            f" digits, _ and -, or give {PIPELINE}"
        )
    return SinkQuarantine(
        spool=_spool(given, f"{SPOOL} needs {FLOW}, as in the source"),
        pipeline=pipeline,
        bootstrap=checked_bootstrap(client.bootstrap),
        security=client.security,
        share_max=_share(given),
        records_min=given.number_or(RECORDS, RECORDS_MIN),
        counts=_counts(given),
    )


def refuse_without_spool(given: GivenOptions, names: Sequence[str]) -> None:
    """Raise OptionError if one of the options is given."""
    for name in names:
        if name in given:
            raise OptionError(f"{name}: only with mode=QUARANTINE of the source and {SPOOL}")


def name_option(given: GivenOptions, name: str) -> str:
    """Return an option that is part of topic names. OptionError if it is missing or invalid."""
    text = given.text(name) or ""
    if not _NAME.fullmatch(text):
        raise OptionError(f"{name}: {text!r} must be 1 to 100 letters, digits, _ and -")
    return text


def _spool(given: GivenOptions, needed: str) -> Spool:
    directory = (given.text(SPOOL) or "").strip()
    if not directory or FLOW not in given:
        raise OptionError(needed)
    if not directory.startswith("/"):
        raise OptionError(
            f"{SPOOL}: {directory!r} is not an absolute path: driver and executors need the same"
            " directory"
        )
    return Spool(directory, name_option(given, FLOW))


def _retry(given: GivenOptions) -> bool:
    if not given.flag(RETRY, False):
        return False
    level = given.text("isolation.level") or given.text("kafka.isolation.level") or ""
    if level.strip().lower() != "read_committed":
        raise OptionError(
            f"{RETRY}: records are replayed in transactions: it needs"
            " isolation.level=read_committed"
        )
    if "subscribe" not in given or "startingTimestampOn" in given:
        raise OptionError(f"{RETRY}: only with subscribe, and without startingTimestampOn")
    return True


def _counts(given: GivenOptions) -> Path | None:
    text = given.text(COUNTS)
    if text is not None and not text.startswith("/"):
        raise OptionError(f"{COUNTS}: {text!r} is not an absolute path")
    return None if text is None else Path(text)


def _share(given: GivenOptions) -> float:
    text = given.text(SHARE)
    try:
        share = SHARE_MAX if text is None else float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise OptionError(f"{SHARE}: {text!r} is not a share above 0 and up to 1")
    return share

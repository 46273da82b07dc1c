"""How often the duties of a log directory are done."""

from typing import NamedTuple


class Periods(NamedTuple):
    """How often what is done, and how long what is kept; milliseconds (Kafka's names beside)."""

    checkpoint_ms: int = 5_000
    """replica.high.watermark.checkpoint.interval.ms; recovery points are written with it, more
    often than Kafka's 60 s: the younger they are, the less a start after a kill has to read, and
    the less can be mistaken for a torn tail."""
    retention_check_ms: int = 300_000
    """log.retention.check.interval.ms"""
    producer_id_expiration_ms: int = 86_400_000
    """producer.id.expiration.ms"""
    scrub_bytes_per_second: int = 0
    """log.scrub.bytes.per.second; 0: no scrub"""
    scrub_interval_ms: int = 604_800_000
    """log.scrub.interval.ms"""

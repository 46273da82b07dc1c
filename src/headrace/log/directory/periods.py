"""`Periods`: intervals of a log directory's periodic work, and limits on producer state."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.config.broker import BrokerConfig


class Periods(NamedTuple):
    """Intervals and lifetimes in milliseconds, with the names of Kafka's settings."""

    checkpoint_ms: int = 5_000
    """Interval of all checkpoints: the least of three settings.

    replica.high.watermark.checkpoint.interval.ms, log.flush.offset.checkpoint.interval.ms and
    log.flush.start.offset.checkpoint.interval.ms; Kafka writes two of them every 60 s. Newer
    recovery points shorten a start after a kill and leave less that can be mistaken for a torn
    tail.
    """
    retention_check_ms: int = 300_000
    """log.retention.check.interval.ms"""
    producer_id_expiration_ms: int = 86_400_000
    """producer.id.expiration.ms"""
    scrub_bytes_per_second: int = 0
    """log.scrub.bytes.per.second; 0 disables the scrub"""
    scrub_interval_ms: int = 604_800_000
    """log.scrub.interval.ms"""
    producer_expiry_check_ms: int = 600_000
    """producer.id.expiration.check.interval.ms"""
    producers_max: int = 100_000
    """producers.per.partition.max; a number of producers"""

    @staticmethod
    def of(config: "BrokerConfig") -> "Periods":
        """Take the periods from a broker's configuration."""
        return Periods(
            min(
                config.replica_high_watermark_checkpoint_interval_ms,
                config.log_flush_offset_checkpoint_interval_ms,
                config.log_flush_start_offset_checkpoint_interval_ms,
            ),
            config.log_retention_check_interval_ms,
            config.producer_id_expiration_ms,
            config.log_scrub_bytes_per_second,
            config.log_scrub_interval_ms,
            config.producer_id_expiration_check_interval_ms,
            config.producers_per_partition_max,
        )

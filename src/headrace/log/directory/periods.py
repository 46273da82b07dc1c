"""How often the duties of a log directory are done, and what its logs remember of producers."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.config.broker import BrokerConfig


class Periods(NamedTuple):
    """How often what is done, and how long what is kept; milliseconds (Kafka's names beside)."""

    checkpoint_ms: int = 5_000
    """The least of replica.high.watermark.checkpoint.interval.ms and log.flush.offset.… and
    log.flush.start.offset.checkpoint.interval.ms: all are written together, more often than Kafka's
    60 s. The younger recovery points are, the less a start after a kill has to read, and the less
    can be mistaken for a torn tail."""
    retention_check_ms: int = 300_000
    """log.retention.check.interval.ms"""
    producer_id_expiration_ms: int = 86_400_000
    """producer.id.expiration.ms"""
    scrub_bytes_per_second: int = 0
    """log.scrub.bytes.per.second; 0: no scrub"""
    scrub_interval_ms: int = 604_800_000
    """log.scrub.interval.ms"""
    producer_expiry_check_ms: int = 600_000
    """producer.id.expiration.check.interval.ms"""
    producers_max: int = 100_000
    """producers.per.partition.max; a number of producers"""

    @staticmethod
    def of(config: "BrokerConfig") -> "Periods":
        """Return the periods of a broker's configuration."""
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

"""`CleanerSettings`: the settings of compaction, read again before each compaction and pause."""

from headrace.config.keys.log import LogKeys


class CleanerSettings:
    """The settings log.cleaner.* and record.batch.inflated.bytes.max that compaction uses."""

    def __init__(self, config: LogKeys) -> None:
        self.enabled = config.log_cleaner_enable
        self.backoff_ms = config.log_cleaner_backoff_ms
        self.dedupe_buffer_bytes = config.log_cleaner_dedupe_buffer_size
        self.load_factor = config.log_cleaner_io_buffer_load_factor
        self.io_buffer_bytes = max(config.log_cleaner_io_buffer_size // 2, 1)
        """Bytes of the read buffer, and as many of the write buffer."""
        self.io_bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self.inflated_bytes_max = config.record_batch_inflated_bytes_max

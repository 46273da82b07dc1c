"""`ReportedDamage`: the damage found in one log, logged once for each place."""

import logging
from typing import Any

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.segment.scan import BadBatch
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import TopicPartition

_logger = logging.getLogger(__name__)


class ReportedDamage:
    """The damage found in one log; counted in its directory and logged without repeats."""

    __slots__ = ("_context", "_reported", "_topic_partition", "met")

    def __init__(self, context: LogDirContext[Any], topic_partition: TopicPartition) -> None:
        self._context = context
        self._topic_partition = topic_partition
        self._reported: set[str] | None = None  # allocated on first use: most logs are undamaged
        self.met = False
        """Whether batches of the log are unreadable. Set on any thread."""

    def say_once(self, what: str) -> bool:
        """Return whether `what` is new for this log, and remember it: a message to be logged
        once."""
        if self._reported is None:
            self._reported = set()
        if what in self._reported:
            return False
        self._reported.add(what)
        return True

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Log the damage once, count it, and return the KAFKA_STORAGE_ERROR for the client."""
        text = str(error)
        where = f"{error.path}:{error.position}" if isinstance(error, BadBatch) else text
        if self.say_once(where):
            self.met = True
            self._context.damaged += 1
            _logger.error(
                "%s: damaged: %s. Reads of this batch fail with KAFKA_STORAGE_ERROR, others are "
                "served. Restore the file from a copy, or move the consumers' offsets behind it",
                self._topic_partition, text,
            )  # fmt: skip
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the data at this offset is damaged")

"""What has been said of one log's damage: nothing is said twice."""

import logging
from typing import Any

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.segment.scan import BadBatch
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import TopicPartition

_logger = logging.getLogger(__name__)


class ReportedDamage:
    """The damage met in one log, counted in its directory."""

    __slots__ = ("_context", "_reported", "_topic_partition", "met")

    def __init__(self, context: LogDirContext[Any], topic_partition: TopicPartition) -> None:
        self._context = context
        self._topic_partition = topic_partition
        self._reported: set[str] | None = None  # most logs never need one
        self.met = False
        """Whether batches of the log cannot be read. Set on any thread."""

    def say_once(self, what: str) -> bool:
        """Tell whether `what` has not been said of this log yet; from now on it has."""
        if self._reported is None:
            self._reported = set()
        if what in self._reported:
            return False
        self._reported.add(what)
        return True

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Say once what is damaged, and count it; returns what the client is told."""
        text = str(error)
        where = f"{error.path}:{error.position}" if isinstance(error, BadBatch) else text
        if self.say_once(where):
            self.met = True
            self._context.damaged += 1
            _logger.error(
                "%s: damaged: %s. Reads of it get KAFKA_STORAGE_ERROR, those before and behind it "
                "are served. Restore the file from a copy, or move the consumers on",
                self._topic_partition, text,
            )  # fmt: skip
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the data at this offset is damaged")

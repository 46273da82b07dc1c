"""`failed_at_start`: fence a log directory whose disk fails while the broker starts."""

import logging
from contextlib import suppress

from headrace.log import file_names
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.periods import Periods
from headrace.log.flusher import Strategy
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import TopicPartition
from headrace.ports.clock import Clock, Random
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)


def failed_at_start(
    disk: Disk,
    clock: Clock,
    random: Random,
    path: str,
    *,
    periods: Periods,
    strategy: Strategy,
    error: OSError,
) -> LogDirectory:
    """Return a fenced LogDirectory for a path that cannot be opened; no log is loaded. Blocking."""
    directory = LogDirectory(disk, clock, random, path, periods=periods, strategy=strategy)
    give_up(directory, error)
    return directory


def give_up(directory: LogDirectory, error: OSError) -> None:
    """Fence a directory that cannot be opened or loaded. Blocking.

    Its partitions stay assigned to it, as far as it can be listed, so that no other directory
    creates empty logs for them.
    """
    path = directory.path
    directory.context.fail(error, path)
    _logger.error(
        "%s: %s: the broker starts without this log directory, and its partitions are offline;"
        " repair the disk, then restart the broker", path, error.strerror or error,
    )  # fmt: skip
    with suppress(OSError):
        names = directory.disk.list(path) if directory.disk.is_directory(path) else []
        for name in names:
            place = file_names.parse_directory(name)
            if place is not None and place not in directory.logs:
                hold(directory, place)


def hold(directory: LogDirectory, place: TopicPartition) -> None:
    """Mark a partition of a failed directory as offline."""
    directory.quarantined[place] = CorruptLogError(
        f"{directory.path}/{place}: its log directory has failed; repair the disk, then restart"
        " the broker"
    )

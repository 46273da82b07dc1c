"""`-stray` directories: logs set aside, retained with all bytes and not served."""

import logging
from typing import NamedTuple

from headrace.log import file_names
from headrace.log.text_files import encode_uuid
from headrace.model.nouns import TopicPartition
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
_LOGGED_MAX = 20
"""Most stray directories of a log directory that a start logs by name."""


class StrayLog(NamedTuple):
    """A `-stray` directory: the log of a partition that was set aside."""

    path: str
    partition: TopicPartition
    """The partition in the directory's name; a long topic name is shortened."""
    topic_id: bytes
    size: int
    """Size of its segments in bytes."""

    @property
    def name(self) -> str:
        """The directory's name within its log directory."""
        return self.path.rpartition("/")[2]


def stray_log(disk: Disk, path: str) -> StrayLog | None:
    """Describe a `-stray` directory; None if `path` is not one. Blocking. Raises OSError."""
    partition = file_names.parse_stray(path.rpartition("/")[2])
    if partition is None:
        return None
    segments = [name for name in disk.list(path) if name.endswith(file_names.LOG)]
    stats = [disk.stat(f"{path}/{name}") for name in segments]
    size = sum(stat.size for stat in stats if stat is not None)
    return StrayLog(path, partition, topic_id_of(disk, path), size)


def topic_id_of(disk: Disk, path: str) -> bytes:
    """Return the topic id of a log directory that is not loaded, as `topic_id_in`. Blocking."""
    from headrace.log.recovery.recover import topic_id_in  # most starts find no such directory

    return topic_id_in(disk, path)


def stray_logs(disk: Disk, directory: str) -> list[StrayLog]:
    """Return the `-stray` directories of a log directory, by name. Blocking. Raises OSError."""
    names = sorted(name for name in disk.list(directory) if file_names.is_stray(name))
    found = [stray_log(disk, f"{directory}/{name}") for name in names]
    return [stray for stray in found if stray is not None]


def log_strays(strays: list[StrayLog]) -> None:
    """Log each stray directory of a log directory, with its size and how to restore it."""
    for stray in strays[:_LOGGED_MAX]:
        log_stray(stray)
    if len(strays) > _LOGGED_MAX:
        _logger.warning(
            "%d more -stray directories: headrace disk lists them",
            len(strays) - _LOGGED_MAX,
        )


def log_stray(stray: StrayLog) -> None:
    """Log a stray directory: its partition, size and topic id, and how to restore it."""
    _logger.warning(
        "%s: a former log of %s (%d bytes, topic id %s), set aside and not served; if the topic"
        " still has that id, rename it to %s while the broker is stopped; if it is not needed,"
        " delete it; see docs/operate.md",
        stray.path, stray.partition, stray.size, encode_uuid(stray.topic_id), stray.partition,
    )  # fmt: skip

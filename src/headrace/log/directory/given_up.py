"""`headrace-given-up-replicas`: replicas in a log directory that lack records once flushed there.

Written durably before a log is changed outside of replication: by `headrace log repair`, and by a
start that finds a checkpoint entry without a log. In a cluster such a replica is not trusted until
the controller knows of it, and starts with an empty log if another broker leads (ADR 64). The file
has the format of Kafka's offset checkpoints; each offset is the log's former end. Kafka and earlier
versions of Headrace ignore the file.
"""

import logging
from collections.abc import Mapping

from headrace.log import file_names, text_files
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)


def read(disk: Disk, directory: str) -> dict[TopicPartition, Offset] | None:
    """Return the former end offsets of logs that lack records; None if the file is malformed.

    Blocking. Raises OSError.
    """
    path = f"{directory}/{file_names.GIVEN_UP}"
    content = read_file(disk, path)
    if content is None:
        return {}
    try:
        return text_files.read_offsets(content, path)
    except CorruptLogError as error:
        _logger.warning("%s; treating every log of the directory as one that lacks records", error)
        return None


def write(disk: Disk, directory: str, ends: Mapping[TopicPartition, int]) -> None:
    """Replace the list of logs that lack records, durably. Blocking. Raises OSError."""
    path = f"{directory}/{file_names.GIVEN_UP}"
    if ends:
        disk.replace(path, text_files.write_offsets(ends))
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_directory(directory)


def add(disk: Disk, directory: str, partition: TopicPartition, end: int) -> None:
    """Add a log that is about to lose records, durably. Blocking. Raises OSError."""
    known = read(disk, directory) or {}
    if partition not in known:
        write(disk, directory, {**known, partition: end})

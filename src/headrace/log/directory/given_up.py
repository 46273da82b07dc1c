"""`headrace-given-up-replicas`: logs of a directory that lack records which were flushed there.

Written durably before a log is changed outside of replication: by `headrace log repair`, and by a
start that misses a log which its checkpoints name. In a cluster such a replica is in doubt until a
controller knows of it, and begins with an empty log if another broker leads (ADR 64). The file is
an offset checkpoint in Kafka's form; each offset is where the log ended before. Kafka and earlier
versions ignore the file.
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
    """Return the former end offsets of the logs that lack records, or None if it is malformed.

    Blocking. OSError.
    """
    path = f"{directory}/{file_names.GIVEN_UP}"
    content = read_file(disk, path)
    if content is None:
        return {}
    try:
        return text_files.read_offsets(content, path)
    except CorruptLogError as error:
        _logger.warning("%s; every log of the directory may lack records", error)
        return None


def write(disk: Disk, directory: str, ends: Mapping[TopicPartition, int]) -> None:
    """Write durably that exactly these logs lack records. Blocking. OSError."""
    path = f"{directory}/{file_names.GIVEN_UP}"
    if ends:
        disk.replace(path, text_files.write_offsets(ends))
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_directory(directory)


def add(disk: Disk, directory: str, partition: TopicPartition, end: int) -> None:
    """Write durably that a log is about to lose records. Blocking. OSError."""
    known = read(disk, directory) or {}
    if partition not in known:
        write(disk, directory, {**known, partition: end})

"""`headrace-given-up-replicas`: logs of a directory that lack records which were flushed there.

Written durably before a log gets shorter or other outside of replication: by `headrace log repair`,
and by a start that misses a log which its checkpoints knew. A broker of a cluster has such a
replica in doubt until a controller knows it, and begins it anew where another broker leads (ADR
64). An offset checkpoint in Kafka's form; each offset is where the log ended before. Kafka, and
versions before, leave the file alone.
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
    """Return where the logs ended that have given records up; None: the file cannot be read.

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
    """Say durably which logs have given records up: these, and no others. Blocking. OSError."""
    path = f"{directory}/{file_names.GIVEN_UP}"
    if ends:
        disk.replace(path, text_files.write_offsets(ends))
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_directory(directory)


def add(disk: Disk, directory: str, partition: TopicPartition, end: int) -> None:
    """Say durably that a log is about to give records up. Blocking. OSError."""
    known = read(disk, directory) or {}
    if partition not in known:
        write(disk, directory, {**known, partition: end})

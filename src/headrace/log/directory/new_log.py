"""`NewLog`: partition, topic id and settings of a log that is to be created; `create_log` does it.

`recovery.recover` opens logs that exist; it is imported with the first one that needs it.
"""

from typing import NamedTuple

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import Log
from headrace.model.nouns import Offset, TopicPartition


class NewLog(NamedTuple):
    """A log that is to be created."""

    topic_partition: TopicPartition
    topic_id: bytes
    config: LogConfig


def create_log(
    context: LogDirContext[Log],
    directory: str,
    topic_partition: TopicPartition,
    topic_id: bytes,
    config: LogConfig,
) -> Log:
    """Create the directory of a new partition; durable with the log's first flush.

    Raises OSError.
    """
    fresh = context.disk.stat(directory) is None
    context.disk.make_directory(directory)
    log = Log(context, directory, topic_partition, topic_id, config)
    log.new_segment(Offset(0), fresh=fresh)
    log.small_files.write(
        file_names.PARTITION_METADATA, text_files.write_partition_metadata(topic_id)
    )
    log.unflushed.add_directory(directory.rpartition("/")[0])
    return log

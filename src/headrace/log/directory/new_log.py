"""`NewLog`: partition, topic id and settings of a log that is to be created; `create_log` does it,
and `create_logs` for many at once.

`recovery.recover` opens logs that exist; it is imported with the first one that needs it.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import Log
from headrace.model.nouns import Offset, TopicPartition

PREPARED_OPEN_MAX = 500
"""New logs with open files that wait to be added; the files of more are flushed and closed."""


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


def create_logs(
    context: LogDirContext[Log], path: str, wanted: Sequence[NewLog], *, close: bool
) -> list[Log]:
    """Create partitions of a log directory; return those before the first that fails. Blocking.

    `close`: leave no file open. Each new log has two until its flush, so that thousands of them
    would reach the process's limit: one flush of the file system makes all of them durable here.
    """
    made: list[Log] = []
    with suppress(OSError):  # whoever adds the log tries again, and gets the error
        for new in wanted:
            made.append(create_log(context, f"{path}/{new.topic_partition}", *new))  # noqa: PERF401
    if close and made:
        with suppress(OSError):  # the files stay open, and their own flush reports it
            context.disk.sync_all(path)
            for log in made:
                for file in log.flush_work().loose:
                    file.close()
                log.segments.active.close()
    return made

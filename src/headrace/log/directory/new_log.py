"""What is known of a log before there is one."""

from typing import NamedTuple

from headrace.config.log_config import LogConfig
from headrace.model.nouns import TopicPartition


class NewLog(NamedTuple):
    """A log that is to be made where there is none."""

    topic_partition: TopicPartition
    topic_id: bytes
    config: LogConfig

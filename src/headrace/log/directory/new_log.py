"""`NewLog`: partition, topic id and settings of a log that is to be created."""

from typing import NamedTuple

from headrace.config.log_config import LogConfig
from headrace.model.nouns import TopicPartition


class NewLog(NamedTuple):
    """A log that is to be created."""

    topic_partition: TopicPartition
    topic_id: bytes
    config: LogConfig

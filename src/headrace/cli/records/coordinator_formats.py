"""Records of the coordinators' internal topics as JSON, like Kafka's message formatters.

Kafka's formatters print records without a separator; here each record is a line.
"""

from headrace.logtools.dump.coordinator_rows import KINDS, kind_named, row_of
from headrace.logtools.dump.java_text import json_of
from headrace.model.errors import Malformed
from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.terminal.failure import UsageError
from headrace.terminal.record_formats import Formatter


def coordinator_formatter(name: str) -> Formatter:
    """Return the formatter of that name, Headrace's or Kafka's class. Raises UsageError.

    Records of other types print nothing.
    """
    kind = kind_named(name)
    if kind is None:
        raise UsageError(f"--formatter {name}: must be one of {', '.join(KINDS)}")
    topic = kind.topic

    def format_(where: TopicPartition, record: Record) -> bytes:
        if where.topic != topic:
            raise UsageError(f"--formatter {name}: {where.topic} has no such records")
        try:
            row = row_of(kind, record)
        except Malformed as error:
            raise UsageError(f"{where} at offset {record.offset}: {error}") from None
        return b"" if row is None else json_of(row).encode() + b"\n"

    return Formatter(format_)

"""The brokers' log directories, and which of them are low on space."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.client.admin.replicas import LogDir, directories
from headrace.client.admin.topics import BROKER_RESOURCE, describe_configs
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.config.free_space import free_bytes_min
from headrace.model.errors import ApiError

FREE_BYTES_MIN = "log.dirs.free.bytes.min"


class Directory(NamedTuple):
    """A broker's log directory."""

    broker: int
    log_dir: LogDir


def directories_of(client: Client, brokers: Sequence[int]) -> Iterator[Directory]:
    """Yield the log directories of the brokers that answer and may be asked."""
    for broker in brokers:
        try:
            found = run(directories(client, broker))
        except (ApiError, ClientError):
            continue
        yield from (Directory(broker, log_dir) for log_dir in found)


class LowDirectory(NamedTuple):
    """A log directory that refuses records for lack of space."""

    place: Directory
    least: int
    """The threshold that its free space is below, in bytes."""


def low_directories(client: Client, found: Sequence[Directory]) -> list[LowDirectory]:
    """Return the directories with less free space than `log.dirs.free.bytes.min`.

    A broker that does not answer, or may not be asked, counts as one without low directories.
    """
    marks: dict[int, int | None] = {}
    low = []
    for place in found:
        broker, log_dir = place
        if log_dir.failed or log_dir.free < 0:
            continue
        try:
            if broker not in marks:
                marks[broker] = _mark(client, broker)
        except (ApiError, ClientError):
            continue
        least = free_bytes_min(marks[broker], log_dir.total)
        if log_dir.free < least:
            low.append(LowDirectory(place, least))
    return low


def _mark(client: Client, broker: int) -> int | None:
    """Return `log.dirs.free.bytes.min` of a broker; None: unset."""
    entries = run(describe_configs(client, BROKER_RESOURCE, str(broker), [FREE_BYTES_MIN]))
    return next((int(entry.value) for entry in entries if entry.value), None)

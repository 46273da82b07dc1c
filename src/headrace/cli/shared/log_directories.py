"""The brokers' log directories that failed or are low on space, and messages about them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.client.admin.replicas import LogDir, directories
from headrace.client.admin.topics import BROKER_RESOURCE, describe_configs
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.config.free_space import free_bytes_min
from headrace.model.errors import ApiError

KEY = "log.dirs.free.bytes.min"
NAMED_MAX = 5
"""The most directories that a message names; `headrace disk` lists all."""


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


def low_message(low: Sequence[LowDirectory]) -> str:
    """Return the message about log directories that refuse records for lack of space, or ''."""
    if not low:
        return ""
    named = [
        f"broker {place.broker} {place.log_dir.path} ({place.log_dir.free} bytes free, {least} set)"
        for place, least in low[:NAMED_MAX]
    ]
    more = f" and {len(low) - NAMED_MAX} more" if len(low) > NAMED_MAX else ""
    subject = "1 log directory has" if len(low) == 1 else f"{len(low)} log directories have"
    them = "it" if len(low) == 1 else "them"
    return (
        f"{subject} less free space than {KEY}, and Produce requests to {them} fail"
        f" (KAFKA_STORAGE_ERROR): {', '.join(named)}{more}; free some space, or shorten"
        " retention: headrace topic alter NAME -c retention.ms=…"
    )


def _mark(client: Client, broker: int) -> int | None:
    """Return `log.dirs.free.bytes.min` of a broker; None: unset."""
    entries = run(describe_configs(client, BROKER_RESOURCE, str(broker), [KEY]))
    return next((int(entry.value) for entry in entries if entry.value), None)


def failed_message(found: Sequence[Directory]) -> str:
    """Return the message about log directories that have failed, or an empty text."""
    failed = [each for each in found if each.log_dir.failed]
    if not failed:
        return ""
    named = ", ".join(f"broker {each.broker} {each.log_dir.path}" for each in failed[:NAMED_MAX])
    more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
    what = "1 log directory has" if len(failed) == 1 else f"{len(failed)} log directories have"
    return (
        f"{what} failed, and the replicas in it are offline: {named}{more}; the broker's log"
        " has the reason; repair the disk, then restart the broker"
    )

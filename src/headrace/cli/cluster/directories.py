"""What `headrace cluster health` says of the brokers' log directories."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.client.client import Client
from headrace.client.replicas import LogDir, directories
from headrace.client.sync import run
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError

NAMED_MAX = 5
"""How many directories one reason names; `headrace disk` has them all."""


class Directory(NamedTuple):
    """One log directory and its broker."""

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


def failed_message(found: Sequence[Directory]) -> str:
    """Return what is said of log directories that have failed; empty where all are sound."""
    failed = [each for each in found if each.log_dir.failed]
    if not failed:
        return ""
    named = ", ".join(f"broker {each.broker} {each.log_dir.path}" for each in failed[:NAMED_MAX])
    more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
    what = "1 log directory has" if len(failed) == 1 else f"{len(failed)} log directories have"
    return (
        f"{what} failed, and the replicas in it are offline: {named}{more}; the broker's log says"
        " why; restart the broker once it is mended"
    )

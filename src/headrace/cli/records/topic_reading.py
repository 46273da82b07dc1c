"""Shared by `query` and `topic export`: the source of topics, and writing to a pipe."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import UsageError
from headrace.terminal.output import note

if TYPE_CHECKING:
    from headrace.arrow.sql.topic_source import TopicSource

DataDirectory = Annotated[
    Path | None,
    Parameter(
        name="--data",
        help="A broker's data directory to read, in place of connecting to brokers; the broker"
        " may run or not.",
    ),
]
Level = Annotated[
    Literal["read_committed", "read_uncommitted"],
    Parameter(
        name="--isolation-level",
        show_default=True,
        help="Whether to exclude records of aborted and open transactions.",
    ),
]


def topics_of(data: Path | None, cluster: BrokerOptions) -> "TopicSource":
    """Return the topics of a data directory, or of the cluster without one. Raises UsageError."""
    from headrace.arrow.sql.topic_source import ClusterTopics, DirectoryTopics

    if data is None:
        return ClusterTopics(cluster.client, note)
    if not data.is_dir():
        raise UsageError(f"--data {data}: there is no such directory")
    return DirectoryTopics(data)


def write_all(chunks: Iterable[bytes]) -> None:
    """Write chunks to standard output one by one, then flush."""
    out = sys.stdout.buffer
    for chunk in chunks:
        out.write(chunk)
    out.flush()

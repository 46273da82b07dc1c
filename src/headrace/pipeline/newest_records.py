"""The newest records of a topic, read by a client: no group, nothing is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.arrow.sql.topic_source import ClusterTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from headrace.client.client import Client


def newest_records(
    connect: Callable[[], Client],
    topic: str,
    count: int,
    columns: Sequence[str],
    tell: Callable[[str], None],
) -> Iterator[pa.RecordBatch]:
    """Yield about the last `count` committed records of a topic, as many of each partition.

    `tell` gets a line about records that are deleted meanwhile. ApiError, ClientError.
    """
    opened = ClusterTopics(connect, tell).open(topic, "read_committed")
    filled = {number: span for number, span in opened.ranges.items() if span[0] < span[1]}
    if not filled:
        return
    share = -(-count // len(filled))
    newest = {number: (max(begin, end - share), end) for number, (begin, end) in filled.items()}
    yield from opened.read(columns, newest)

"""Counts of records that a flow accepts, or refuses again, after they were sent to it again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.records import end_offsets, read_quarantine
from headrace.pipeline.run.planned_batch import newest_batch, positions_of
from headrace.spark.quarantine.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.client.client import Client
    from headrace.pipeline.quarantine.settlement import Sent

POLL_SECONDS = 0.5


class Outcome(NamedTuple):
    """Counts of records that were sent to a flow again, and that it has read."""

    accepted: int
    refused: int
    """Records that are in the quarantine again."""


def end_of_retries(client: Client, pipeline: str, topic: str) -> int:
    """Return the end offset of a retry topic's committed records. ApiError, ClientError."""
    name = retry_topic(pipeline, topic)
    return end_offsets(client, name)[TopicPartition(name, 0)]


def has_read(checkpoint: Path, pipeline: str, topic: str, end: int) -> bool:
    """Return whether a checkpoint's finished batches have read a retry topic up to an offset."""
    # Spark deletes old batches and writes new ones meanwhile.
    with suppress(OSError, ValueError, HeadraceError):
        batch = newest_batch(checkpoint / "commits")
        if batch is not None:
            ends = positions_of(checkpoint, batch)
            return ends.get(TopicPartition(retry_topic(pipeline, topic), 0), -1) >= end
    return False


def wait_for_read(
    checkpoint: Callable[[], Path],
    pipeline: str,
    topic: str,
    end: int,
    seconds: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> bool:
    """Wait until a flow has read a retry topic up to an offset; return False after `seconds`."""
    until = clock() + seconds
    while not has_read(checkpoint(), pipeline, topic, end):
        if clock() >= until:
            return False
        pause(POLL_SECONDS)
    return True


def outcome_of(client: Client, topic: str, owner: tuple[str, str], sent: Sent) -> Outcome:
    """Return how many of the sent records the flow has accepted, and how many refused again.

    It has read them. ApiError, ClientError.
    """
    refused = sum(
        record.owner == owner and record.attempt > 1 and record.place in sent
        for record in read_quarantine(client, topic, sent.ends)
    )
    return Outcome(sent.records - refused, refused)

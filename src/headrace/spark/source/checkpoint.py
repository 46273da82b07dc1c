"""Read a streaming query's checkpoint: the query's id, and the planned offsets of a batch."""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SinkError, SourceError
from headrace.spark.source.offsets import Position

POSITIONS_CHARACTERS_MAX = 64 * 1024
"""Positions longer than this are not stored with a decision; its digest still identifies them."""


class PlannedBatch(NamedTuple):
    """The plan of a micro-batch as the checkpoint stores it."""

    digest: str
    positions: str
    """The sources' end positions, one JSON line each; empty if too long."""


def query_id(checkpoint: str) -> str:
    """Return the query's id from its checkpoint. SinkError if it cannot be read."""
    try:
        return str(json.loads(_read(checkpoint, "metadata"))["id"])
    except (ValueError, KeyError, TypeError):
        raise SinkError(f"{checkpoint}: its file metadata names no query") from None


def planned(checkpoint: str, batch: int) -> PlannedBatch:
    """Return the offsets file that Spark wrote before the batch. SinkError if it cannot be read."""
    data = _read(checkpoint, f"offsets/{batch}")
    text = data.decode(errors="replace")
    # Skips the version line and the line with the batch's own settings.
    positions = text.split("\n", 2)[-1]
    if len(positions) > POSITIONS_CHARACTERS_MAX:
        positions = ""
    return PlannedBatch(hashlib.sha256(data).hexdigest(), positions)


def ranges_of_batch(checkpoint: str, batch: int) -> list[tuple[TopicPartition, int, int]]:
    """Return the ranges of offsets that a batch reads, the end exclusive.

    Empty for a first batch, whose begin the checkpoint does not have, and for offsets that are not
    of this source.
    """
    if batch == 0:
        return []
    try:
        pairs = zip(_ends(checkpoint, batch - 1), _ends(checkpoint, batch), strict=True)
        return [
            (partition, begins[partition], end)
            for before, after in pairs
            for begins in [{**before.offsets, **after.added}]
            for partition, end in sorted(after.offsets.items())
            if partition in begins
        ]
    except (SinkError, SourceError, ValueError):
        return []


def topic_ids_of_batch(checkpoint: str, batch: int) -> dict[str, str]:
    """Return the ids of topics when a batch was planned, as text; empty if they are not known."""
    try:
        positions = _ends(checkpoint, batch)
    except (SinkError, SourceError, ValueError):
        return {}
    return {topic: text for position in positions for topic, text in position.ids.items()}


def _ends(checkpoint: str, batch: int) -> list[Position]:
    lines = _read(checkpoint, f"offsets/{batch}").decode(errors="replace").split("\n")[2:]
    return [Position.of_json(json.loads(line)) for line in lines if line.startswith("{")]


def next_batch(checkpoint: str) -> int:
    """Return the number after the last batch that Spark has committed; 0 without one.

    0 also for a checkpoint that is not a local directory.
    """
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file"):
        return 0
    commits = Path(unquote(parts.path) if parts.scheme else checkpoint) / "commits"
    names = [path.name for path in commits.iterdir()] if commits.is_dir() else []
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def _read(checkpoint: str, name: str) -> bytes:
    try:
        parts = urlsplit(checkpoint)
        if parts.scheme in ("", "file"):
            place = unquote(parts.path) if parts.scheme else checkpoint
            with open(os.path.join(place, name), "rb") as file:
                return file.read()
        from pyarrow import fs

        system, place = fs.FileSystem.from_uri(checkpoint)
        with system.open_input_stream(f"{place.rstrip('/')}/{name}") as stream:
            return bytes(stream.read())
    except (OSError, ValueError, ImportError) as error:
        raise SinkError(
            f"{checkpoint}/{name} cannot be read by the driver's Python, and the sink tells a"
            f" repeated batch by it: {error}"
        ) from None

"""What a streaming query's checkpoint says of itself: which query it is, and what a batch reads."""

import hashlib
import json
import os
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.spark.errors import SinkError

POSITIONS_CHARACTERS_MAX = 64 * 1024
"""Longer positions are not kept with a decision: the digest says whether they are the same."""


class PlannedBatch(NamedTuple):
    """A batch as the checkpoint has planned it."""

    digest: str
    positions: str
    """The sources' positions after it, a line each as Spark writes them; empty where too long."""


def query_id(checkpoint: str) -> str:
    """Return the query's id. SinkError where the checkpoint cannot be read."""
    try:
        return str(json.loads(_read(checkpoint, "metadata"))["id"])
    except (ValueError, KeyError, TypeError):
        raise SinkError(f"{checkpoint}: its file metadata names no query") from None


def planned(checkpoint: str, batch: int) -> PlannedBatch:
    """Return what Spark wrote down before it began the batch. SinkError."""
    data = _read(checkpoint, f"offsets/{batch}")
    text = data.decode(errors="replace")
    positions = text.split("\n", 2)[-1]  # behind the version and the batch's own settings
    if len(positions) > POSITIONS_CHARACTERS_MAX:
        positions = ""
    return PlannedBatch(hashlib.sha256(data).hexdigest(), positions)


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

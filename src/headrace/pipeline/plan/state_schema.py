"""The schema of a flow's state, from a run without rows on a scratch checkpoint.

Spark writes it to `state/<operator>/_metadata/metadata` (the operator and its stores) and
`state/<operator>/<partition>/[<store>/]_metadata/schema`: a version (Java's modified UTF-8, two
bytes of length), then for key and value a count of chunks and the chunks, JSON each.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from headrace.pipeline.plan.flow_print import Operator, digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

_VERSION = "v2"


def run_without_rows(rows: DataFrame, checkpoint: Path) -> tuple[Operator, ...]:
    """Run a stream's batches, which have no rows, and return the state that they create.

    Raises Spark's StreamingQueryException if the checkpoint does not fit the stream.
    """
    query = (
        rows.writeStream.format("noop")
        .outputMode("append")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return operators_of(checkpoint)


def operators_of(checkpoint: Path) -> tuple[Operator, ...]:
    """Return the stateful operators of a checkpoint, in the order of their numbers."""
    places = (checkpoint / "state").glob("*/_metadata")
    return tuple(
        _operator(place) for place in sorted(places, key=lambda each: int(each.parent.name))
    )


def _operator(place: Path) -> Operator:
    if not (place / "metadata").is_file():  # transformWithState: versioned, with column families
        return Operator("state", {"files": (_files(place.parent),)})
    described = json.loads((place / "metadata").read_text(encoding="utf-8").partition("\n")[2])
    stores = {}
    for store in described["stateStoreInfo"]:
        name = store["storeName"]
        partition = place.parent / "0"
        inner = partition if name == "default" else partition / name
        stores[name] = _schemas((inner / "_metadata" / "schema").read_bytes())
    return Operator(described["operatorInfo"]["operatorName"], stores)


def _schemas(content: bytes) -> tuple[Any, ...]:
    """Return the schemas of key and value; of an unknown version, a digest of the bytes."""
    version, position = _text(content, 0)
    if version != _VERSION:
        return (digest_of(content.hex()),)
    found = []
    for _ in range(2):
        (chunks,) = struct.unpack_from(">i", content, position)
        position += 4
        text = ""
        for _ in range(chunks):
            chunk, position = _text(content, position)
            text += chunk
        found.append(json.loads(text))
    return tuple(found)


def _text(content: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", content, position)
    begin = position + 2
    return content[begin : begin + length].decode(), begin + length


def _files(place: Path) -> str:
    """Return a digest of an operator's schema files, whose names have UUIDs."""
    files = [each for each in place.rglob("_stateSchema/**/*") if each.is_file()]
    kept = [each for each in files if not each.name.startswith(".")]
    return digest_of(sorted(each.read_bytes().hex() for each in kept))

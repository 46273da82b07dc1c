"""Markers: the last batch of each pipeline, kept by the table in the commit that wrote the batch.

A batch is known by its pipeline's name, its number and a digest of what Spark planned for it, the
checkpoint's `offsets/<batch>`. Spark writes that file before the batch and repeats the batch from
it; a checkpoint that is lost or put back plans anew, so the same number has another digest. Another
query's checkpoint may be ahead of the table: it is known by the query's id, of which a digest is
kept too.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headrace.spark.source.checkpoint import query_id
from headrace.spark.source.offsets import starting_offsets
from headrace.spark.tables.errors import TableError

UNKNOWN_DIGEST = 0
"""Of a batch job, whose `txnVersion` alone tells one write from the next; of a query that the
release which wrote the marker did not note."""
_HEADER_LINES = 2
"""Of an offsets file, before the sources' ends: the version and the batch's metadata."""


@dataclass(frozen=True)
class Marker:
    """A batch of a pipeline, as it stands in the table."""

    pipeline: str
    batch: int
    digest: int = UNKNOWN_DIGEST
    """Below 2**63: Delta keeps it as a transaction's version."""
    query: int = UNKNOWN_DIGEST
    """A digest of the query's id, of the same kind."""
    ends: tuple[str, ...] = ()
    """Where each of the query's sources ended, in Spark's words: what a lost checkpoint knew."""

    def to_json(self) -> str:
        """Return the same as text, for formats that keep text."""
        said = {
            "batch": self.batch,
            "digest": self.digest,
            "query": self.query,
            "ends": list(self.ends),
        }
        return json.dumps(said, sort_keys=True)

    @classmethod
    def of_json(cls, pipeline: str, text: str) -> "Marker":
        """Read what `to_json` wrote; TableError for anything else."""
        try:
            said: Any = json.loads(text)
            ends = tuple(str(end) for end in said["ends"])
            query = int(said.get("query", UNKNOWN_DIGEST))
            return cls(pipeline, int(said["batch"]), int(said["digest"]), query, ends)
        except (ValueError, KeyError, TypeError):
            raise TableError(f"the table's marker of {pipeline} cannot be read: {text!r}") from None


def marker_of_batch(pipeline: str, checkpoint: Path, batch: int) -> Marker:
    """Return the marker of a streaming batch, from what its checkpoint says."""
    planned = checkpoint / "offsets" / str(batch)
    try:
        content = planned.read_bytes()
    except OSError as error:
        raise TableError(
            f"the checkpoint's {planned} cannot be read ({error.strerror}): tables are written "
            "from a checkpointLocation that the driver can read as a directory, without "
            "asyncProgressTrackingEnabled"
        ) from error
    query = query_id(str(checkpoint)).encode()
    ends = content.decode(errors="replace").splitlines()[_HEADER_LINES:]
    return Marker(pipeline, batch, _digest(content), _digest(query), tuple(ends))


def is_written(
    last: Marker | None, now: Marker, ends_of: Callable[[Marker], Sequence[str]]
) -> bool:
    """Tell whether the table holds this batch already; TableError where it holds another one.

    Batch jobs (no digest) repeat by number alone, as Delta's txnVersion does. `ends_of` is asked
    where a marker's ends are to be told.
    """
    if last is None:
        return False
    same_query = UNKNOWN_DIGEST in (last.query, now.query) or last.query == now.query
    if now.batch > last.batch and same_query:
        return False
    if now.digest == UNKNOWN_DIGEST:
        return True
    if now.batch == last.batch and now.digest == last.digest:
        return True
    behind = starting_offsets(ends_of(last))
    option = f" and startingOffsets={behind}" if behind else ""
    raise TableError(
        f"the table holds batch {last.batch} of pipeline {now.pipeline}, and the checkpoint plans "
        f"another batch {now.batch}: it is lost, older than the table, or another run's. Put its "
        "newest copy back, or, where the query keeps no state, go on from where the table ends: "
        f"with a new pipeline name, shared=true{option}"
    )


def _digest(content: bytes) -> int:
    """Return 63 bits that are not UNKNOWN_DIGEST."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1 or 1

"""Markers: the last batch of each pipeline, stored in the table by the commit that wrote it.

A batch is identified by its pipeline's name, its number and a digest of the checkpoint's
`offsets/<batch>`. Spark writes that file before the batch and repeats the batch from it. A lost or
restored checkpoint plans batches again, so the same number gets another digest. The checkpoint of
another query may be ahead of the table; it is detected by a digest of the query's id.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headrace.spark.quarantine.manifest import NOTHING_REFUSED
from headrace.spark.source.checkpoint import query_id
from headrace.spark.source.offsets import starting_offsets
from headrace.spark.tables.errors import TableError

UNKNOWN_DIGEST = 0
"""The digest of a batch job, whose `txnVersion` alone identifies a write; also that of a query in
markers of older releases."""
_HEADER_LINES = 2
"""Lines of an offsets file before the sources' offsets: the version and the batch's metadata."""


@dataclass(frozen=True)
class Marker:
    """The identity of a pipeline's batch, as the table stores it."""

    pipeline: str
    batch: int
    digest: int = UNKNOWN_DIGEST
    """Digest of the planned offsets, below 2**63: Delta stores it as a transaction's version."""
    query: int = UNKNOWN_DIGEST
    """Digest of the query's id, of the same kind."""
    columns: int = UNKNOWN_DIGEST
    """Digest of the names of the rows' columns; unknown in markers of older releases."""
    ends: tuple[str, ...] = ()
    """End offsets of the query's sources as Spark's JSON, to recover from a lost checkpoint."""
    quarantine: int = NOTHING_REFUSED
    """Digest of the manifest of the batch's refused records; it is published after the commit."""

    def to_json(self) -> str:
        """Encode the marker as JSON, for formats that store text."""
        said: dict[str, Any] = {
            "batch": self.batch,
            "digest": self.digest,
            "query": self.query,
            "columns": self.columns,
            "ends": list(self.ends),
        }
        if self.quarantine != NOTHING_REFUSED:
            said["quarantine"] = self.quarantine
        return json.dumps(said, sort_keys=True)

    @classmethod
    def of_json(cls, pipeline: str, text: str) -> "Marker":
        """Decode the output of `to_json`; TableError if it is invalid."""
        try:
            said: Any = json.loads(text)
            ends = tuple(str(end) for end in said["ends"])
            batch, digest = int(said["batch"]), int(said["digest"])
            query = int(said.get("query", UNKNOWN_DIGEST))
            columns = int(said.get("columns", UNKNOWN_DIGEST))
            quarantine = int(said.get("quarantine", NOTHING_REFUSED))
            return cls(pipeline, batch, digest, query, columns, ends, quarantine)
        except (ValueError, KeyError, TypeError):
            raise TableError(f"the table's marker of {pipeline} cannot be read: {text!r}") from None


def marker_of_batch(
    pipeline: str, checkpoint: Path, batch: int, columns: int = UNKNOWN_DIGEST
) -> Marker:
    """Return the marker of a micro-batch, computed from its checkpoint. Raises TableError.

    `columns`: digest of the rows' columns.
    """
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
    return Marker(pipeline, batch, _digest(content), _digest(query), columns, tuple(ends))


def is_written(
    last: Marker | None, now: Marker, ends_of: Callable[[Marker], Sequence[str]]
) -> bool:
    """Return whether the table contains this batch; TableError if it contains a different one.

    Batch jobs (no digest) are identified by number alone, like Delta's txnVersion. `ends_of` is
    called for the error text.
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
    """Return a 63-bit digest that is not UNKNOWN_DIGEST."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") >> 1 or 1

"""The quarantine of a flow's typed topics, as options of its sources and of its sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.spark.quarantine.options import COUNTS, FLOW, PIPELINE, RETRY, SPOOL
from headrace.spark.source.typed_values import UNKNOWN_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.graph import DeclaredFlow
    from headrace.pipeline.run.storage import Storage

SINK_OPTIONS_TAKEN = (SPOOL, FLOW, PIPELINE, COUNTS)
"""Options of a sink's quarantine that the run chooses."""


@dataclass(frozen=True)
class FlowQuarantine:
    """The quarantine of one flow."""

    pipeline: str
    """The pipeline's name; it contains the profile's."""
    flow: str
    spool: Path
    """The storage's directory of refused records that are not published yet."""
    counts: Path
    """The directory to which the sink reports how many records each batch refused."""
    unknown_keys: Path
    """The directory to which tasks report the keys that no column has."""

    @classmethod
    def of(cls, pipeline: str, storage: Storage, flow: DeclaredFlow) -> FlowQuarantine:
        """Return the quarantine of a flow into its target's newest version."""
        counts = storage.refused(flow.target, flow.name)
        unknown = storage.unknown_keys(flow.target, flow.name)
        return cls(pipeline, flow.name, storage.spool, counts, unknown)

    def source_options(self) -> dict[str, str]:
        """Return the options of a typed topic, which also reads replayed records.

        They need a source that reads committed records.
        """
        more = {RETRY: "true", UNKNOWN_KEYS: str(self.unknown_keys)}
        return {"mode": "QUARANTINE", **more, **self._shared()}

    def sink_options(self) -> dict[str, str]:
        """Return the options of the sink, without those of its brokers."""
        return {**self._shared(), COUNTS: str(self.counts)}

    def _shared(self) -> dict[str, str]:
        return {SPOOL: str(self.spool), FLOW: self.flow, PIPELINE: self.pipeline}

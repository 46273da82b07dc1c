"""The records that `headrace pipeline quarantine replay` has sent, as JSON and as lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.spark.quarantine.names import retry_topic
from headrace.terminal.output import counted

if TYPE_CHECKING:
    from headrace.pipeline.quarantine.outcome import Outcome
    from headrace.pipeline.quarantine.settlement import Sent

RANGES_SHOWN = 5
"""Ranges of sent records that are printed; `--json` has all."""


class SentRecords(NamedTuple):
    """The records that were sent to one flow."""

    topic: str
    """The topic in which they were refused."""
    owner: tuple[str, str]
    """Pipeline and flow."""
    sent: "Sent"
    outcome: "Outcome | None" = None
    """Counts of those that the flow has read; None: the command has not waited for it."""

    def to_json(self) -> dict[str, object]:
        """Return the records for `--json`."""
        return {
            "pipeline": self.owner[0],
            "flow": self.owner[1],
            "topic": retry_topic(self.owner[0], self.topic),
            "records": self.sent.records,
            "refused_again": self.sent.again,
            "ranges": [range_._asdict() for range_ in self.sent.ranges],
            "outcome": self.outcome and self.outcome._asdict(),
        }

    def lines(self) -> Iterator[str]:
        """Yield what was sent, and what has become of it or happens to it next."""
        pipeline, flow = self.owner
        yield (
            f"{self.sent.records} sent to {retry_topic(pipeline, self.topic)} for flow {flow} "
            f"(once, in one transaction): {self._ranges()}"
        )
        if self.sent.again:
            yield f"  refused again after an earlier replay: {self.sent.again}"
        if self.outcome is None:
            yield (
                f"  next: the flow's next batch in a run of {pipeline} reads them; headrace "
                f"pipeline quarantine list {self.topic} counts what it refuses again"
            )
        else:
            accepted, refused = self.outcome
            yield f"  {self.sent.records} read: {accepted} accepted, {refused} refused again"

    def _ranges(self) -> str:
        shown = [
            f"{self.topic}-{partition}@{first}{f'..{last}' if last > first else ''}"
            for partition, first, last in self.sent.ranges[:RANGES_SHOWN]
        ]
        more = len(self.sent.ranges) - RANGES_SHOWN
        rest = f" and {counted(more, 'range')} more" if more > 0 else ""
        return ", ".join(shown) + rest

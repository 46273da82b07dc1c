"""The new offsets of `headrace group reset`, by the flags of kafka-consumer-groups."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.terminal.failure import UsageError
from headrace.terminal.offset_positions import Place, parse_duration, parse_utc

CURRENT = Place("ahead", 0)
"""The committed offset of the group, or the first offset without one."""


@Parameter(name="*")
@dataclass(frozen=True)
class ResetTarget:
    """The flags that name the new offsets; exactly one must be given."""

    to_earliest: Annotated[bool, Parameter(help="To the first offset.")] = False
    to_latest: Annotated[bool, Parameter(help="To the end offset.")] = False
    to_current: Annotated[
        bool,
        Parameter(help="To the current offset, limited to the first and end offsets."),
    ] = False
    to_offset: Annotated[int | None, Parameter(help="To this offset.")] = None
    to_datetime: Annotated[
        str | None,
        Parameter(
            help="To the first record at or after a time as 2026-11-20T12:00:00.000 (UTC without"
            " a zone, as Kafka's command)."
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        Parameter(help="To this long ago, as P1DT12H or PT30M."),
    ] = None
    shift_by: Annotated[
        int | None,
        Parameter(allow_leading_hyphen=True, help="This many offsets forward; negative: back."),
    ] = None
    from_file: Annotated[
        Path | None,
        Parameter(
            help="To the offsets in a CSV file: topic,partition,offset per line, or with the group"
            " first."
        ),
    ] = None

    def check(self) -> None:
        """Raise UsageError unless exactly one flag is given."""
        said = [value for value in vars(self).values() if value is not None and value is not False]
        if len(said) != 1:
            raise UsageError(
                "pass exactly one of: --to-earliest, --to-latest, --to-current, --to-offset,"
                " --to-datetime, --by-duration, --shift-by or --from-file"
            )

    def place(self) -> Place:
        """Return the position of the given flag, for all flags but --from-file.

        Raises UsageError.
        """
        if self.to_earliest:
            return Place("time", EARLIEST)
        if self.to_latest:
            return Place("time", LATEST)
        if self.to_offset is not None:
            if self.to_offset < 0:
                raise UsageError(f"--to-offset {self.to_offset}: must be at least 0")
            return Place("offset", self.to_offset)
        if self.to_datetime is not None:
            return Place("time", parse_utc(self.to_datetime))
        if self.by_duration is not None:
            ago = datetime.now(UTC) - parse_duration(self.by_duration)
            return Place("time", int(ago.timestamp() * 1000))
        if self.shift_by is not None:
            if self.shift_by < 0:
                return Place("before_end", -self.shift_by)
            return Place("ahead", self.shift_by)
        return CURRENT

"""The verdict on a batch: whether enough of its rows pass, and the report of its counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from headrace.model.nouns import counted
from headrace.spark.batch_counts import write_counts
from headrace.spark.checks.check import Outcome
from headrace.spark.checks.division import Tally
from headrace.spark.checks.written_columns import duplicates_of
from headrace.spark.errors import CheckFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.spark.checks.check import Check
    from headrace.spark.checks.options import RowChecks


def sum_of(tallies: Iterable[Tally | None]) -> Tally:
    """Return the sum of the tasks' counts."""
    whole = Tally()
    for tally in tallies:
        if tally is not None:
            whole.add(tally)
    return whole


def check_batch(checks: RowChecks, tally: Tally, batch: int | None) -> None:
    """Raise CheckFailedError if too few rows pass a check that ends the run, or two share a key."""
    for check in checks.checks:
        if check.outcome is Outcome.FAIL and _too_few(check, tally):
            raise CheckFailedError(_text(checks, check, tally, batch))
    for unique in checks.unique:
        found = duplicates_of(
            unique, tally.keys.get(unique.name, ()), lambda place: _position(checks, place)
        )
        if found is not None:
            raise CheckFailedError(
                f"check {unique.name!r} failed: {counted(found.rows, 'row')} of "
                f"{_batch_text(batch)} ({tally.rows} in all) with the key of an earlier one, "
                f"first {'; '.join(found.examples)}"
            )


def report(checks: RowChecks, tally: Tally, batch: int) -> None:
    """Write the counts of a committed batch for the run to read; a full disk loses them."""
    if checks.counts is None:
        return
    names = [check.name for check in checks.checks]
    names += [check.name for check in checks.unique]
    said: dict[str, Any] = {
        "rows": tally.rows,
        "dropped": tally.dropped,
        "quarantined": tally.quarantined,
        "failed": {name: tally.failed.get(name, 0) for name in names},
        "below": [
            check.name
            for check in checks.checks
            if check.outcome is Outcome.KEEP and _too_few(check, tally)
        ],
        "examples": {
            name: [_position(checks, place) for place in places]
            for name, places in tally.examples.items()
            if places
        },
    }
    if tally.newest:
        said["newest"] = {name: _time_text(micros) for name, micros in tally.newest.items()}
    write_counts(checks.counts, batch, said)


def _too_few(check: Check, tally: Tally) -> bool:
    failed = tally.failed.get(check.name, 0)
    # As decimals: 7 of 100 rows are 0.07 of them, and 0.07 * 100 is more than 7.
    least = Fraction(str(check.at_least)) * tally.rows
    return failed > 0 and tally.rows - failed < least


def _text(checks: RowChecks, check: Check, tally: Tally, batch: int | None) -> str:
    failed = tally.failed[check.name]
    number = _batch_text(batch)
    text = f"check {check.name!r} failed: {failed} of {counted(tally.rows, 'row')} of {number}"
    places = tally.examples.get(check.name, [])
    if places:
        text += f", first {', '.join(_position(checks, place) for place in places)}"
    if check.at_least < 1:
        passed = (tally.rows - failed) / tally.rows
        text += f"; {passed:.2%} pass, and at least {check.at_least:.2%} must"
    return text


def _batch_text(batch: int | None) -> str:
    return "the batch" if batch is None else f"batch {batch}"


def _time_text(micros: int) -> str:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return time.isoformat().replace("+00:00", "Z")


def _position(checks: RowChecks, place: tuple[int, int]) -> str:
    partition, offset = place
    return f"{checks.topic}-{partition}@{offset}" if checks.topic else f"{partition}@{offset}"

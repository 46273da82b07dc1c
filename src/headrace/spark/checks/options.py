"""The option `checks` of a sink: the checks that its rows have been evaluated by, as JSON.

Internal: a run of a pipeline sets it together with the column of failed checks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.spark.checks.check import FAILED, Check, Fresh, Outcome, Unique
from headrace.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.spark.given_options import GivenOptions

CHECKS = "checks"


@dataclass(frozen=True)
class RowChecks:
    """The checks of a write."""

    checks: tuple[Check, ...]
    topic: str
    """The topic that positions in error texts are of; empty if the rows have none or several."""
    counts: Path | None
    """Directory for the counts of each batch; None: they are not reported."""
    schema_digest: str = ""
    """Digest of the topic's declared columns, for records that a check moves to the quarantine."""
    unique: tuple[Unique, ...] = ()
    fresh: tuple[Fresh, ...] = ()

    def to_option(self) -> dict[str, str]:
        """Return the option."""
        said = {
            "checks": [
                [check.name, check.condition, check.outcome.value, check.at_least]
                for check in self.checks
            ],
            "topic": self.topic,
            "counts": None if self.counts is None else str(self.counts),
            "schema": self.schema_digest,
            "unique": [each.columns for each in self.unique],
            "fresh": [[each.column, each.within] for each in self.fresh],
        }
        return {CHECKS: json.dumps(said)}

    @property
    def dropping(self) -> frozenset[str]:
        """Names of the checks whose failed rows are not written."""
        away = (Outcome.DROP, Outcome.QUARANTINE)
        return frozenset(check.name for check in self.checks if check.outcome in away)

    @property
    def moving(self) -> tuple[str, ...]:
        """Names of the checks whose failed rows go to the quarantine, in their order."""
        return tuple(each.name for each in self.checks if each.outcome is Outcome.QUARANTINE)


def given_checks(given: GivenOptions) -> RowChecks | None:
    """Return the checks of a write; None without the option. OptionError if it is invalid."""
    text = given.text(CHECKS)
    if text is None:
        return None
    try:
        said: Any = json.loads(text)
        counts = said["counts"]
        return RowChecks(
            tuple(
                Check(str(name), str(condition), Outcome(outcome), float(share))
                for name, condition, outcome, share in said["checks"]
            ),
            str(said["topic"]),
            None if counts is None else Path(counts),
            unique=tuple(Unique(tuple(map(str, columns))) for columns in said["unique"]),
            fresh=tuple(Fresh(str(column), str(within)) for column, within in said["fresh"]),
            schema_digest=str(said["schema"]),
        )
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{CHECKS}: {text!r} is not what a pipeline's run writes") from None


def refuse_without_quarantine(checks: RowChecks | None, *, quarantine: bool) -> None:
    """Raise OptionError if a check moves rows to a quarantine that the query does not have."""
    if checks is not None and checks.moving and not quarantine:
        raise OptionError(
            f"{CHECKS}: check {checks.moving[0]!r} moves rows to the quarantine, and the query has"
            " none"
        )


def written_names(names: Sequence[str], checks: RowChecks | None) -> list[str]:
    """Return the columns to write; OptionError without the column of failed checks."""
    if checks is None:
        return list(names)
    if FAILED not in names:
        raise OptionError(f"{CHECKS}: the rows have no column {FAILED}")
    return [name for name in names if name != FAILED]

"""The closing balance of a pipeline: every record fed is somewhere, and said to be where."""

from __future__ import annotations

from dataclasses import dataclass


class Unbalanced(Exception):
    """Records are missing or were counted twice; the message says which sums differ."""


@dataclass(frozen=True)
class Account:
    """Counts of one run, each taken by reading back what was written, never from a counter.

    `stored` is how many of the records fed the topic holds; `windowed` is the sum over the windows
    of how many records each holds.
    """

    fed: int
    stored: int
    damaged: int
    written: int
    quarantined: int
    windowed: int

    def differences(self) -> list[str]:
        """Say in one sentence each which sums do not agree; empty when the account balances."""
        balances = (
            ("in the topic", self.stored, "fed", self.fed),
            ("written + quarantined", self.written + self.quarantined, "fed", self.fed),
            ("quarantined", self.quarantined, "damaged", self.damaged),
            ("in windows", self.windowed, "written", self.written),
        )
        return [
            f"{left:,} {name} but {right:,} {other}"
            for name, left, other, right in balances
            if left != right
        ]

    def check(self) -> None:
        """Raise `Unbalanced` unless every record is accounted for."""
        if differences := self.differences():
            raise Unbalanced("; ".join(differences))

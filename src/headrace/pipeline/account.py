"""Closing balance of a pipeline: compares the records fed with the records written."""

from __future__ import annotations

from dataclasses import dataclass


class Unbalanced(Exception):
    """Records are missing or were counted twice; the message names the sums that differ."""


@dataclass(frozen=True)
class Account:
    """Record counts of one pipeline run, taken by reading back what was written.

    `stored` counts the records in the topic. `windowed` is the sum of the record counts of all
    windows.
    """

    fed: int
    stored: int
    damaged: int
    written: int
    quarantined: int
    windowed: int

    def differences(self) -> list[str]:
        """Describe each pair of sums that differ; empty if the account balances."""
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

"""The counts of a run, and whether they are good enough."""

from dataclasses import dataclass

DRAWN_FOUND_PERCENT_MIN = 95.0


@dataclass(frozen=True, slots=True)
class Counts:
    """How many faults were listed and drawn, and what came of them."""

    listed: int = 0
    unnoticed: int = 0
    drawn: int = 0
    found: int = 0
    hangs: int = 0
    refused: int = 0
    """Of those that no test noticed at first, how many mypy refuses: `make lint` notices."""
    equivalent: int = 0

    @property
    def survivors(self) -> int:
        """Drawn faults that nothing noticed and nobody showed to be none."""
        return self.drawn - self.noticed - self.equivalent

    @property
    def noticed(self) -> int:
        """Drawn faults that could not land."""
        return self.found + self.hangs + self.refused

    @property
    def percent(self) -> float:
        """Of the drawn faults that are any, how many were noticed."""
        real = self.drawn - self.equivalent
        return 100.0 * self.noticed / real if real else 100.0

    @property
    def good(self) -> bool:
        """Whether every listed fault was noticed, and enough of the drawn ones."""
        return not self.unnoticed and self.percent >= DRAWN_FOUND_PERCENT_MIN

    def __str__(self) -> str:
        """One line per kind of fault."""
        return (
            f"listed {self.listed:5}   unnoticed {self.unnoticed}\n"
            f"drawn  {self.drawn:5}   found {self.found}   hangs {self.hangs}   "
            f"refused {self.refused}   equivalent {self.equivalent}   "
            f"survivors {self.survivors}   {self.percent:.1f} %"
        )

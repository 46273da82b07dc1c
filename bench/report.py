"""One table of what was measured: medians, ratios round by round, and their spread."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.markup import escape
from rich.table import Table

GENERATOR_SHARE = "generator's CPU %"
OF_THE_MACHINE = ("sendfile MB/s", GENERATOR_SHARE)
"""Units of what no broker has a part in."""


@dataclass(frozen=True)
class Goal:
    """What a row should reach: `least` or `most`, of ours alone or of ours / peer."""

    least: float | None = None
    most: float | None = None

    def met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def __str__(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"


def between_versions(unit: str, least_ratio: float) -> Goal | None:
    """What a figure should be of another checkout's: a rate no lower, all else no higher."""
    if unit in OF_THE_MACHINE:
        return None
    rate = unit.endswith("/s") or "/CPU-s" in unit or unit.startswith("%")
    return Goal(least=least_ratio) if rate else Goal(most=round(1 / least_ratio, 3))


@dataclass
class Figure:
    """One measured quantity of one row, over all rounds, of each subject."""

    row: str
    unit: str
    goal: Goal | None = None
    ceiling: Goal | None = None
    """A bound on our own figure, whatever the peer does."""
    values: dict[str, list[float]] = field(default_factory=dict)

    def ratios(self) -> list[float]:
        """Ours / peer, round by round; empty without a peer."""
        peers = [found for name, found in self.values.items() if name != "headrace"]
        pairs = zip(self.values.get("headrace", []), *peers, strict=False) if peers else []
        return [ours / theirs for ours, theirs in pairs if theirs]

    def verdict(self) -> str:
        ratios = self.ratios()
        said = []
        if self.goal and ratios:
            said.append(f"{'ok' if self.goal.met(median(ratios)) else 'MISSED'} {self.goal}")
        if self.ceiling and self.values.get("headrace"):
            ours = median(self.values["headrace"])
            said.append(
                f"{'ok' if self.ceiling.met(ours) else 'MISSED'} {self.ceiling} {self.unit}"
            )
        return ", ".join(said)


def number(value: float) -> str:
    """Three significant digits, thousands grouped."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_table(
    figures: list[Figure],
    seconds: Mapping[str, float],
    *,
    rounds: int,
    peer: str | None,
    absent: Collection[str] = (),
) -> None:
    """Print one line per figure; `MISSED` marks a goal that the median does not meet.

    `seconds`: how long the rows took, by title. `absent`: titles of what the peer does not have.
    """
    table = Table(title=f"medians of up to {rounds} rounds", title_justify="left")
    table.add_column("row")
    table.add_column("unit")
    table.add_column("headrace", justify="right")
    if peer:
        table.add_column(peer, justify="right")
        table.add_column("ours / peer", justify="right")
        table.add_column("spread", justify="right")
    table.add_column("goal")
    table.add_column("took s", justify="right")
    said: set[str] = set()
    for figure in figures:
        cells = [escape(figure.row), figure.unit, median_of(figure, "headrace")]
        if peer:
            ratios = figure.ratios()
            cells.append("not there" if figure.row in absent else median_of(figure, peer))
            cells.append(f"{median(ratios):.2f}" if ratios else "")
            cells.append(f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "")
        first = figure.row not in said and figure.row in seconds
        said.add(figure.row)
        table.add_row(*cells, figure.verdict(), f"{seconds[figure.row]:.0f}" if first else "")
    Console(width=170).print(table)


def median_of(figure: Figure, subject: str) -> str:
    """Empty where the subject gave no figure."""
    values = figure.values.get(subject)
    return number(median(values)) if values else ""

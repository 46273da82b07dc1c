"""`python -m bench [--peer kafka]`: one table of figures.

Rows run on brokers that stay up, sections bring their own. All of it takes most of an hour beside a
peer; `--list` says how long each may take at most.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.report import Figure, print_table
from bench.rows import Row
from bench.sections import Section, all_sections, within
from bench.subjects import SUBJECTS, Broker
from bench.table_rows import all_rows, warming_rows

TOUCHED_BYTES = 6 << 30


def touch_memory(path: Path) -> None:
    """Write and delete a file as large as what the rows will: fresh pages are dear, once."""
    block = bytes(8 << 20)
    with path.open("wb") as file:
        for _ in range(TOUCHED_BYTES // len(block)):
            file.write(block)
    path.unlink()


class Table:
    """Figures as they come in, in the order of the rows."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], Figure] = {}
        self.seconds: dict[str, float] = {}
        """How long a row took, by title: all rounds of all subjects."""
        self.failed = False

    def add(
        self, subject: str, title: str, unit: str, value: float, row: Row | Section | None
    ) -> None:
        goal = row.goals.get(unit) if row else None
        ceiling = row.ceilings.get(unit) if row else None
        figure = self.figures.setdefault((title, unit), Figure(title, unit, goal, ceiling))
        figure.values.setdefault(subject, []).append(value)
        print(f"  {subject:9} {title}: {value:,.3f} {unit}", file=sys.stderr, flush=True)

    def _fail(self, who: str, title: str, error: Exception) -> None:
        print(f"  {who:9} {title}: failed: {error!r}", file=sys.stderr, flush=True)
        self.failed = True

    def measure(self, row: Row, broker: Broker, number: int) -> None:
        """Run a row; one that fails is said, and the others go on."""
        began = time.monotonic()
        try:
            with within(row.seconds_max):
                figures = row.run(broker, number)
            for unit, value in figures.items():
                self.add(broker.name, row.title, unit, value, row)
        except Exception as error:  # noqa: BLE001 - whatever ended it is told
            self._fail(broker.name, row.title, error)
        self._took(row.title, began)

    def run_section(self, section: Section, names: Sequence[str], rounds: int) -> None:
        """All rounds of a section; what it found before it failed stays."""
        began = time.monotonic()
        try:
            with within(section.seconds_max):
                for subject, figures in section.measure(names, min(rounds, section.rounds_max)):
                    for unit, value in figures.items():
                        self.add(subject, section.title, unit, value, section)
        except Exception as error:  # noqa: BLE001 - whatever ended it is told
            self._fail("", section.title, error)
        self._took(section.title, began)

    def _took(self, title: str, began: float) -> None:
        self.seconds[title] = self.seconds.get(title, 0.0) + time.monotonic() - began


def warm_up(broker: Broker) -> None:
    """Let a JVM compile what the rows go through: they compare brokers that have run a while."""
    for number, row in enumerate(warming_rows(broker.durable)):
        row.run(broker, -1 - number)


def run_rows(table: Table, names: list[str], rows: list[Row], rounds: int) -> None:
    """All rows of one durability, the subjects in turn on brokers that stay up."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(SUBJECTS[name](rows[0].durable)) for name in names]
        number = 0
        for broker in brokers:
            warm_up(broker)
        for row in rows:
            for _ in range(rounds):
                number += 1
                for broker in brokers:
                    table.measure(row, broker, number)
        for broker in brokers:
            mode = "flushed" if broker.durable else "page cache"
            title = f"memory after all rows [{mode}]"
            table.add(broker.name, title, "RSS MB", broker.rss_megabytes(), None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peer", choices=["kafka"], help="run Apache Kafka 4.3.1 in turn with us")
    parser.add_argument(
        "--rounds", type=int, default=3, help="at most: what takes long has fewer (default 3)"
    )
    parser.add_argument(
        "--rows", default="", help="only rows whose title holds one of these, separated by ;"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="SHARE",
        help="for a try: this share of the records, bytes and partitions of what is large",
    )  # fmt: skip
    parser.add_argument(
        "--list",
        action="store_true",
        help="name the rows, with the seconds they are given, and end",
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    wanted = given.rows.split(";")

    def chosen(title: str) -> bool:
        return any(part in title for part in wanted)

    rows = [row for row in all_rows(bool(given.peer), given.scale) if chosen(row.title)]
    sections = [one for one in all_sections(given.scale) if chosen(one.title)]
    if given.list:
        for row in rows:
            print(f"{row.title} (at most {row.seconds_max:g} s a round and broker)")
        for section in sections:
            print(f"{section.title} (at most {section.seconds_max:g} s)")
        return 0
    names = ["headrace", *([given.peer] if given.peer else [])]
    touch_memory(Path("/tmp") / "headrace-bench-touch")
    table = Table()
    for durable in (False, True):
        now = [row for row in rows if row.durable is durable]
        if now:
            run_rows(table, names, now, given.rounds)
    for section in sections:
        table.run_section(section, names, given.rounds)
    print_table(list(table.figures.values()), table.seconds, rounds=given.rounds, peer=given.peer)
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())

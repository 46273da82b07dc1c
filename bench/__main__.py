"""`python -m bench [--peer kafka]`: one table of figures."""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.report import Figure, Goal, print_table
from bench.rows import Row, all_rows, start_figures, warming_rows
from bench.subjects import Broker, Headrace, Kafka

TOUCHED_BYTES = 6 << 30
START_GOALS = {"exec to first ack s": Goal(most=0.5), "RSS idle MB": Goal(most=60)}
SUBJECTS: dict[str, Callable[[bool], Broker]] = {"headrace": Headrace, "kafka": Kafka}


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
        self.failed = False

    def add(self, subject: str, title: str, unit: str, value: float, row: Row | None) -> None:
        goal = row.goals.get(unit) if row else None
        ceiling = row.ceilings.get(unit) if row else START_GOALS.get(unit)
        figure = self.figures.setdefault((title, unit), Figure(title, unit, goal, ceiling))
        figure.values.setdefault(subject, []).append(value)
        print(f"  {subject:9} {title}: {value:,.3f} {unit}", file=sys.stderr, flush=True)

    def measure(self, row: Row, broker: Broker, number: int) -> None:
        """Run a row; one that fails is said, and the others go on."""
        try:
            figures = row.run(broker, number)
        except Exception as error:  # noqa: BLE001 - whatever ended it is told
            print(f"  {broker.name:9} {row.title}: failed: {error!r}", file=sys.stderr, flush=True)
            self.failed = True
            return
        for unit, value in figures.items():
            self.add(broker.name, row.title, unit, value, row)


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peer", choices=["kafka"], help="run Apache Kafka 4.3.1 in turn with us")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--rows", default="", help="only rows whose title holds one of these, separated by ;"
    )
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    given = parser.parse_args()
    wanted = given.rows.split(";")
    rows = [row for row in all_rows(bool(given.peer)) if any(part in row.title for part in wanted)]
    if given.list:
        print("\n".join(row.title for row in rows))
        return 0
    names = ["headrace", *([given.peer] if given.peer else [])]
    touch_memory(Path("/tmp") / "headrace-bench-touch")
    table = Table()
    if any(part in "start" for part in wanted):
        for _ in range(given.rounds):
            for name in names:
                for unit, value in start_figures(SUBJECTS[name]).items():
                    table.add(name, "start", unit, value, None)
    for durable in (False, True):
        chosen = [row for row in rows if row.durable is durable]
        if chosen:
            run_rows(table, names, chosen, given.rounds)
    print_table(list(table.figures.values()), rounds=given.rounds, peer=given.peer)
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())

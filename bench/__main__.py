"""`python -m bench [--peer kafka | rabbitmq | rocketmq | ../another-checkout]`: one table.

Rows run on brokers that stay up, sections bring their own. All of it takes most of an hour beside a
peer; `--list` says how long each may take at most. Beside RabbitMQ, or with `--queues`, the rows
are those of queues; beside RocketMQ, or with `--remoting`, those of its protocol. Beside another
checkout of ours (set up by its own `make setup-dev`), each figure's goal is what the other has: see
`--least-ratio`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import queue_brokers, queue_rows, rocketmq_brokers, rocketmq_rows
from bench.cluster_sections import cluster_sections
from bench.memory import touch_memory
from bench.queue_cluster_sections import queue_cluster_sections
from bench.queue_sections import queue_sections
from bench.report import Figure, between_versions, print_table
from bench.rocketmq_sections import rocketmq_sections
from bench.rows import Figures, Row
from bench.sections import Section, all_sections, within
from bench.secured_sections import secured_sections
from bench.subjects import KAFKA, OURS, Broker, Subject, another, in_turn
from bench.table_rows import all_rows, warming_rows

LEAST_RATIO = 0.95
"""Of another checkout's rate: less is missed, unless `--least-ratio` gives another bound."""


class Table:
    """Figures as they come in, in the order of the rows."""

    def __init__(self, least_ratio: float | None = None) -> None:
        self.least_ratio = least_ratio
        """Beside another checkout: the bound of every figure, instead of the goals beside Kafka."""
        self.figures: dict[tuple[str, str], Figure] = {}
        self.seconds: dict[str, float] = {}
        """How long a row took, by title: all rounds of all subjects."""
        self.absent: set[str] = set()
        """Titles of what a subject does not have."""
        self.failed = False

    def add_all(
        self, subject: str, title: str, figures: Figures, row: Row | Section | None
    ) -> None:
        if not figures:
            self.absent.add(title)
            print(f"  {subject:9} {title}: not there", file=sys.stderr, flush=True)
        for unit, value in figures.items():
            self._add(subject, title, unit, value, row)

    def _add(
        self, subject: str, title: str, unit: str, value: float, row: Row | Section | None
    ) -> None:
        if self.least_ratio is not None:
            goal = between_versions(unit, self.least_ratio)
        else:
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
            self.add_all(broker.name, row.title, figures, row)
        except Exception as error:  # noqa: BLE001 - whatever ended it is told
            self._fail(broker.name, row.title, error)
        self._took(row.title, began)

    def run_section(self, section: Section, subjects: Sequence[Subject], rounds: int) -> None:
        """All rounds of a section; what it found before it failed stays."""
        began = time.monotonic()
        try:
            with within(section.seconds_max):
                for name, figures in section.measure(subjects, min(rounds, section.rounds_max)):
                    self.add_all(name, section.title, figures, section)
        except Exception as error:  # noqa: BLE001 - whatever ended it is told
            self._fail("", section.title, error)
        self._took(section.title, began)

    def _took(self, title: str, began: float) -> None:
        self.seconds[title] = self.seconds.get(title, 0.0) + time.monotonic() - began


def warm_up(broker: Broker) -> None:
    """Let a JVM compile what the rows go through: they compare brokers that have run a while."""
    for number, row in enumerate(warming_rows(broker.durable)):
        row.run(broker, -1 - number)


def run_rows(
    table: Table,
    subjects: list[Subject],
    rows: list[Row],
    rounds: int,
    warm_up: Callable[[Broker], None],
) -> None:
    """All rows of one durability, the subjects in turn on brokers that stay up."""
    with ExitStack() as stack:
        brokers = {
            subject.name: stack.enter_context(subject.broker(rows[0].durable))
            for subject in subjects
        }
        number = 0
        for broker in brokers.values():
            warm_up(broker)
        for row in rows:
            for turn in range(rounds):
                number += 1
                for subject in in_turn(subjects, turn):
                    table.measure(row, brokers[subject.name], number)
        for broker in brokers.values():
            mode = "flushed" if broker.durable else "page cache"
            title = f"memory after all rows [{mode}]"
            table.add_all(broker.name, title, {"RSS MB": broker.rss_megabytes()}, None)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--peer", metavar="kafka|rabbitmq|rocketmq|CHECKOUT",
        help="run Apache Kafka 4.3.1, RabbitMQ 4.3, Apache RocketMQ 5.5.0, or the checkout of ours"
        " in that directory, in turn with us",
    )  # fmt: skip
    parser.add_argument(
        "--queues", action="store_true", help="the rows of queues, over AMQP (needs Go)"
    )
    parser.add_argument(
        "--remoting",
        action="store_true",
        help="the rows of RocketMQ's protocol (needs Go, Maven and a JDK)",
    )
    parser.add_argument(
        "--least-ratio", type=float, default=LEAST_RATIO, metavar="RATIO",
        help="beside another checkout: a rate below this share of the other's is missed, and so is"
        f" a time or a size above its inverse (default {LEAST_RATIO})",
    )  # fmt: skip
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


class Plan(NamedTuple):
    """What a run measures, and of whom."""

    subjects: list[Subject]
    rows: list[Row]
    sections: list[Section]
    warm_up: Callable[[Broker], None]


def planned(given: argparse.Namespace) -> Plan:
    """All rows of the peer that is asked for; an error of the command where there is none."""
    try:
        if given.queues or given.peer == queue_brokers.RABBITMQ.name:
            return _of_queues(given)
        if given.remoting or given.peer == rocketmq_brokers.ROCKETMQ.name:
            return _of_remoting(given)
        return _of_records(given)
    except ValueError as error:
        sys.exit(f"bench: --peer is kafka, rabbitmq, rocketmq or a checkout: {error}")


def _of_records(given: argparse.Namespace) -> Plan:
    peers = []
    if given.peer is not None:
        peers = [KAFKA if given.peer == KAFKA.name else another(Path(given.peer))]
    scale = given.scale
    sections = [*all_sections(scale), *secured_sections(scale), *cluster_sections(scale)]
    return Plan([OURS, *peers], all_rows(KAFKA in peers, scale), sections, warm_up)


def _of_queues(given: argparse.Namespace) -> Plan:
    peers = []
    if given.peer is not None:
        known = given.peer == queue_brokers.RABBITMQ.name
        peers = [queue_brokers.RABBITMQ if known else queue_brokers.another(Path(given.peer))]
    rows = [*queue_rows.queue_rows(False), *queue_rows.queue_rows(True)]
    sections = [*queue_sections(given.scale), *queue_cluster_sections(given.scale)]
    return Plan([queue_brokers.OURS, *peers], rows, sections, queue_rows.warm_up)


def _of_remoting(given: argparse.Namespace) -> Plan:
    peers = []
    if given.peer is not None:
        known = given.peer == rocketmq_brokers.ROCKETMQ.name
        peers = [rocketmq_brokers.ROCKETMQ if known else rocketmq_brokers.another(Path(given.peer))]
    rows = [
        row
        for durable in (False, True)
        for row in rocketmq_rows.rocketmq_rows(durable, given.scale)
    ]
    sections = rocketmq_sections(given.scale)
    return Plan([rocketmq_brokers.OURS, *peers], rows, sections, rocketmq_rows.warm_up)


def main() -> int:
    given = arguments()
    plan = planned(given)
    wanted = given.rows.split(";")
    rows = [row for row in plan.rows if any(part in row.title for part in wanted)]
    sections = [one for one in plan.sections if any(part in one.title for part in wanted)]
    if given.list:
        for row in rows:
            print(f"{row.title} (at most {row.seconds_max:g} s a round and broker)")
        for section in sections:
            print(f"{section.title} (at most {section.seconds_max:g} s)")
        return 0
    peers = plan.subjects[1:]
    touch_memory()
    table = Table(given.least_ratio if any(peer.checkout for peer in peers) else None)
    for durable in (False, True):
        now = [row for row in rows if row.durable is durable]
        if now:
            run_rows(table, plan.subjects, now, given.rounds, plan.warm_up)
    for section in sections:
        table.run_section(section, plan.subjects, given.rounds)
    print_table(
        list(table.figures.values()), table.seconds,
        rounds=given.rounds, peer=peers[0].name if peers else None, absent=table.absent,
    )  # fmt: skip
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())

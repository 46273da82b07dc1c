"""Replay RabbitMQ's recorded management calls or commands against a broker, and compare.

    python -m tests.outside.amqp.management                       # our broker
    python -m tests.outside.amqp.management --broker rabbitmq     # root, debootstrap
    python -m tests.outside.amqp.management --base http://127.0.0.1:15672 --amqp 127.0.0.1:5672
    python -m tests.outside.amqp.management --commands --broker rabbitmq

Prints the differences that the list in tests/golden/rabbitmq-4.3.6 does not explain, and its rows
without a difference; status 1 if there are any. RabbitMQ itself has no explained difference; one
of another version than the recorded differs for that reason, with status 0.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.outside.amqp.address import Address
from tests.outside.amqp.management import recordings
from tests.outside.amqp.management.broker import ManagedHeadrace, ManagedRabbitMQ
from tests.outside.amqp.management.clients import Clients
from tests.outside.amqp.management.commands import (
    command_differences,
    commands,
    replayed_commands,
)
from tests.outside.amqp.management.compare import Difference, differences
from tests.outside.amqp.management.differences import (
    COMMANDS,
    MANAGEMENT,
    NOT_BUILT,
    Explained,
    read_explained,
)
from tests.outside.amqp.management.marks import marked
from tests.outside.amqp.management.replay import WAIT_SECONDS_MAX, Line, Replay, over_http
from tests.outside.amqp.management.steps import sections, steps
from tests.outside.amqp.peer import RABBITMQ_4_3, prepared
from tests.support.listed_differences import fits, unexplained

OUR_WAIT_SECONDS_MAX = 1.0
"""Seconds in which our broker answers as expected: its counters are not sampled."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay and compare; the exit status."""
    given = _arguments(arguments)
    runs = [_run(given) for _ in range(given.runs)]
    golden = recordings.load(recordings.COMMANDS if given.commands else recordings.ANSWERS)
    answers = runs[0].answers
    if given.record:
        others = [run.answers for run in runs[1:]]
        recordings.save(given.record, marked(answers.values(), others, golden))
    if given.commands:
        compared = [it.id for it in commands() if it.recorded]
        found = list(command_differences(golden, answers, commands()))
    else:
        chosen = [it for it in steps() if not given.section or it.section in given.section]
        compared = [it.id for it in chosen if it.recorded]
        found = list(differences(golden, answers, chosen))
    rows = [] if runs[0].version else read_explained(COMMANDS if given.commands else MANAGEMENT)
    return report(found, compared, rows, runs[0].version, is_whole=not given.section)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.outside.amqp.management", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--broker", choices=("ours", "rabbitmq"), default="ours")
    parser.add_argument("--base", help="the URL of a management API; its / has to be empty")
    parser.add_argument("--amqp", default="127.0.0.1:5672", help="that broker's AMQP listener")
    parser.add_argument("--commands", action="store_true", help="replay the commands instead")
    parser.add_argument("--record", type=Path, help="write the answers to this file, too")
    parser.add_argument("--runs", type=int, default=1, help="whose differences are marked in it")
    parser.add_argument("section", nargs="*", choices=[*sections(), []], help="compare these alone")
    return parser.parse_args(arguments)


@dataclass
class Run:
    """The answers of a broker, by step; RabbitMQ's with its version."""

    answers: dict[str, Line] = field(default_factory=dict)
    version: str | None = None


def _run(given: argparse.Namespace) -> Run:
    if given.base:
        host, _, port = given.amqp.rpartition(":")
        return Run(replayed(given.base, Address(int(port), host=host)))
    if given.broker != "rabbitmq":
        return _ours() if not given.commands else Run()
    with ManagedRabbitMQ(prepared(release=RABBITMQ_4_3)) as node:
        if not given.commands:
            return Run(replayed(node.base, node.address), node.version)
        clients = Clients(node.address)
        try:
            lines = replayed_commands(node.run, clients, node.node)
            return Run({line["id"]: line for line in lines}, node.version)
        finally:
            clients.close()


def _ours() -> Run:
    with (
        TemporaryDirectory(prefix="headrace-managed-") as place,
        ManagedHeadrace(Path(place)) as broker,
    ):
        return Run(replayed(broker.base, broker.address, OUR_WAIT_SECONDS_MAX))


def replayed(
    base: str, address: Address, wait_seconds_max: float = WAIT_SECONDS_MAX
) -> dict[str, Line]:
    """Return the answers of a management API, by step."""
    clients = Clients(address)
    try:
        replay = Replay(over_http(base), clients, {"amqp_port": str(address.port)})
        replay.wait_seconds_max = wait_seconds_max
        return {line["id"]: line for line in replay.play(steps())}
    finally:
        clients.close()


def report(
    found: Sequence[Difference],
    compared: Iterable[str],
    rows: Sequence[Explained],
    version: str | None = None,
    *,
    is_whole: bool = True,
) -> int:
    """Print the differences without a row and the rows without a difference; the exit status."""
    left, unused = unexplained(found, rows)
    for difference in left:
        print("differs", *difference, sep="\t")
    for row in unused if is_whole else ():
        print("no such difference", *row, sep="\t")
    print(summary(found, left, compared, rows))
    if version not in (None, recordings.VERSION):
        print(f"the recording is of RabbitMQ {recordings.VERSION}, this is {version}")
        return 0
    return 1 if left or (unused and is_whole) else 0


def summary(
    found: Iterable[Difference],
    left: Iterable[Difference],
    compared: Iterable[str],
    rows: Iterable[Explained],
) -> str:
    """Return the counts of calls by result."""
    differing = {each.call for each in found}
    failed = {each.call for each in left}
    missing = [row for row in rows if row.reason.startswith(NOT_BUILT)]

    def result(call: str) -> str:
        if call not in differing:
            return "equal"
        if call in failed:
            return "different"
        return "not built" if any(fits(call, row.call) for row in missing) else "explained"

    results = Counter(map(result, compared))
    return ", ".join(f"{number} {name}" for name, number in sorted(results.items()))


if __name__ == "__main__":
    sys.exit(main())

"""Replay RabbitMQ's recorded management calls against a broker, and compare the answers.

    python -m tests.outside.amqp.management                       # our broker
    python -m tests.outside.amqp.management --broker rabbitmq     # root, debootstrap
    python -m tests.outside.amqp.management --base http://127.0.0.1:15672 --amqp 127.0.0.1:5672

Prints the differences that `tests/golden/rabbitmq-4.3.6/management-differences.tsv` does not
explain, and its rows without a difference; status 1 if there are any. RabbitMQ itself has no
explained difference; one of another version differs for that reason, with status 0.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.outside.amqp.address import Address
from tests.outside.amqp.management.broker import ManagedRabbitMQ
from tests.outside.amqp.management.clients import Clients
from tests.outside.amqp.management.compare import Difference, differences
from tests.outside.amqp.management.differences import (
    MANAGEMENT,
    NOT_BUILT,
    Explained,
    read_explained,
)
from tests.outside.amqp.management.recordings import VERSION, load, save
from tests.outside.amqp.management.replay import Line, Replay, over_http
from tests.outside.amqp.management.steps import Step, sections, steps
from tests.outside.amqp.peer import RABBITMQ_4_3, prepared
from tests.support.listed_differences import fits, unexplained


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay and compare; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.outside.amqp.management", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--broker", choices=("ours", "rabbitmq"), default="ours")
    parser.add_argument("--base", help="the URL of a management API; its / has to be empty")
    parser.add_argument("--amqp", default="127.0.0.1:5672", help="that broker's AMQP listener")
    parser.add_argument("--record", type=Path, help="write the answers to this file, too")
    parser.add_argument("section", nargs="*", choices=[*sections(), []], help="compare these alone")
    given = parser.parse_args(arguments)
    rows, version = read_explained(MANAGEMENT), None
    if given.base:
        host, _, port = given.amqp.rpartition(":")
        answers = replayed(given.base, Address(int(port), host=host))
    elif given.broker == "rabbitmq":
        rows = []
        with ManagedRabbitMQ(prepared(release=RABBITMQ_4_3)) as node:
            version = node.version
            answers = replayed(node.base, node.address)
    else:
        answers = {}
    if given.record:
        save(given.record, answers.values())
    chosen = [step for step in steps() if not given.section or step.section in given.section]
    return report(answers, chosen, rows, version)


def replayed(base: str, address: Address) -> dict[str, Line]:
    """Return the answers of a broker, by step."""
    clients = Clients(address)
    try:
        replay = Replay(over_http(base), clients, {"amqp_port": str(address.port)})
        return {line["id"]: line for line in replay.play(steps())}
    finally:
        clients.close()


def report(
    answers: dict[str, Line],
    scenario: Sequence[Step],
    rows: Sequence[Explained],
    version: str | None = None,
) -> int:
    """Print the differences without a row and the rows without a difference; the exit status."""
    found = list(differences(load(), answers, scenario))
    left, unused = unexplained(found, rows)
    is_whole = {step.id for step in steps()} == {step.id for step in scenario}
    unused = unused if is_whole else []
    for difference in left:
        print("differs", *difference, sep="\t")
    for row in unused:
        print("no such difference", *row, sep="\t")
    print(summary(found, left, scenario, rows))
    if version not in (None, VERSION):
        print(f"the recording is of RabbitMQ {VERSION}, this is {version}")
        return 0
    return 1 if left or unused else 0


def summary(
    found: Iterable[Difference],
    left: Iterable[Difference],
    scenario: Iterable[Step],
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

    results = Counter(result(step.id) for step in scenario if step.recorded)
    return ", ".join(f"{number} {name}" for name, number in sorted(results.items()))


if __name__ == "__main__":
    sys.exit(main())

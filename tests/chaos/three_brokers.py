"""Three brokers and three ZooKeepers while faults come: `python -m tests.chaos.three_brokers`.

Runs in namespaces of its own (`tests.chaos.namespaces.enclosed`). Every round has all faults, in an
order drawn from the seed; each begins on a cluster that is whole. Prints a table and the verdict.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from tests.chaos.cluster import Ground, ground
from tests.chaos.namespaces import NoNamespaces
from tests.chaos.nemesis import NEMESES, Nemesis

OPERATIONS_MIN = 100
"""Acknowledged during each fault that leaves a majority: what stands still breaks no promise."""


@dataclass
class Row:
    """What one nemesis did, all its times together."""

    nemesis: Nemesis
    operations: list[int] = field(default_factory=list)
    """Acknowledged during each time."""
    still_seconds_max: float = 0.0
    heal_seconds_max: float = 0.0

    def __str__(self) -> str:
        least = min(self.operations, default=0)
        return (
            f"{self.nemesis.name:<26}{len(self.operations):>6}{sum(self.operations):>12}"
            f"{least:>8}{self.still_seconds_max:>10.1f}{self.heal_seconds_max:>8.1f}"
        )


HEAD = f"{'nemesis':<26}{'times':>6}{'operations':>12}{'least':>8}{'still s':>10}{'heal s':>8}"


def disturb(there: Ground, nemeses: list[Nemesis], seconds: float) -> list[Row]:
    """Run rounds of all nemeses until the time is over, the first one to its end."""
    rows = {nemesis.name: Row(nemesis) for nemesis in nemeses}
    deadline = time.monotonic() + seconds
    waiting: list[Nemesis] = []
    while time.monotonic() < deadline or not all(row.operations for row in rows.values()):
        waiting = waiting or there.chance.sample(nemeses, len(nemeses))
        _inflict(there, waiting.pop(), rows)
    return list(rows.values())


def _inflict(there: Ground, nemesis: Nemesis, rows: dict[str, Row]) -> None:
    row = rows[nemesis.name]
    there.load.pulse.lap()
    with nemesis.fault(there) as hit:
        there.load.tend()
        operations, still_seconds = there.load.pulse.lap()
        print(f"  {nemesis.name}, {hit}: {operations} operations", flush=True)
    healing = time.monotonic()
    there.until_whole()
    row.operations.append(operations)
    row.still_seconds_max = max(row.still_seconds_max, still_seconds)
    row.heal_seconds_max = max(row.heal_seconds_max, time.monotonic() - healing)


def stood_still(rows: list[Row]) -> list[str]:
    """Return what is to be said of faults that left a majority, and yet clients waited."""
    return [
        f"{row.nemesis.name}: {least} operations acknowledged, fewer than {OPERATIONS_MIN}"
        for row in rows
        if row.nemesis.leaves_majority and (least := min(row.operations)) < OPERATIONS_MIN
    ]


def ride(directory: Path, seconds: float, seed: int, nemeses: list[Nemesis]) -> bool:
    """One run; prints what came of it. Whether everything held."""
    with ground(directory, seed) as there:
        rows = disturb(there, nemeses, seconds)
        verdict = there.load.finish()
        there.until_in_sync()
        compared = there.compare()
        problems, waits = list(there.load.problems), there.load.library_waits
    problems += stood_still(rows)
    print(HEAD, *rows, verdict, compared, sep="\n")
    print(f"copiers begun again as librdkafka waited with nothing asked: {waits}")
    for problem in problems[:20]:
        print(f"  {problem}")
    return verdict.holds() and not compared.differences and not problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1440)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--only", action="append", help="a nemesis by its name; again for more")
    arguments = parser.parse_args()
    nemeses = [one for one in NEMESES if arguments.only is None or one.name in arguments.only]
    if not nemeses:
        parser.error(f"--only: one of {', '.join(nemesis.name for nemesis in NEMESES)}")
    print(f"chaos of three brokers: {arguments.seconds:.0f} seconds, seed {arguments.seed}")
    directory = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    try:
        held = ride(directory, arguments.seconds, arguments.seed, nemeses)
    except NoNamespaces as error:
        print(f"chaos: no network of namespaces can be made here: {error}")
        return 1
    except (AssertionError, KafkaException) as error:
        held = False
        print(f"  {error}")
    if held:
        shutil.rmtree(directory)
    else:
        print(f"what the brokers said and hold is in {directory}")
    return not held


if __name__ == "__main__":
    sys.exit(main())

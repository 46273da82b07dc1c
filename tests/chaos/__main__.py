"""Exactly-once under faults: `make chaos`, or `python -m tests.chaos --seconds 1800`.

A fifth of the time one broker is killed again and again, the rest three brokers on three ZooKeepers
meet every fault. The same load, the same judge. Status 1: a promise broke.
"""

import argparse
import random
import subprocess
import sys

from tests.chaos import one_broker
from tests.chaos.namespaces import NoNamespaces, enclosed
from tests.outside.kafka_reads_our_files.jvm import NoJvm, libraries
from tests.support.zookeeper import PROJECT

ONE_BROKER_SHARE = 0.2


def three_brokers(seconds: float, seed: int, only: list[str]) -> bool:
    """Run them in namespaces of their own. Whether everything held."""
    command = [sys.executable, "-m", "tests.chaos.three_brokers"]
    command += ["--seconds", f"{seconds:g}", "--seed", str(seed)]
    command += [f"--only={name}" for name in only]
    try:
        libraries(PROJECT)  # fetched from outside: within there is no network but its own
        return subprocess.run(enclosed(command), check=False).returncode == 0
    except (NoNamespaces, NoJvm) as error:
        print(f"chaos: three brokers cannot be run here: {error}")
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--page-cache", action="store_true", help="acknowledge before the flush")
    parser.add_argument("--only", action="append", default=[], help="three brokers, this nemesis")
    arguments = parser.parse_args()
    alone_seconds = 0 if arguments.only else arguments.seconds * ONE_BROKER_SHARE
    held = True
    if alone_seconds:
        settings = {"log.flush.on.ack": str(not arguments.page_cache).lower()}
        held = one_broker.ride(alone_seconds, arguments.seed, **settings)
    left = arguments.seconds - alone_seconds
    held = three_brokers(left, arguments.seed, arguments.only) and held
    print("held" if held else "BROKE")
    return not held


if __name__ == "__main__":
    sys.exit(main())

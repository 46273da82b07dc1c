"""Kafka's tools against a cluster of three brokers on ZooKeeper: ours, and Apache Kafka 3.9.2's.

Compared as `make compat` compares one broker with another. The tools that ask a broker are those of
Kafka 4.3.1; those that Kafka 4 has no more (replica-verification, zookeeper-shell) are 3.9.2's.

    python -m tests.outside.kafka_tools.on_cluster [--keep] [--raw]
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.outside.kafka_reads_our_files.jvm import NoJvm
from tests.outside.kafka_tools.__main__ import Verdicts, compare, sum_up
from tests.outside.kafka_tools.clusters import ClusterSide, KafkaCluster, OurCluster
from tests.outside.kafka_tools.steps_cluster import SECTIONS
from tests.support.zookeeper import ZooKeeper


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where nothing differs that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.kafka_tools.on_cluster")
    parser.add_argument("--keep", action="store_true", help="leave the directories there")
    parser.add_argument("--raw", action="store_true", help="show what the tools printed")
    given = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="headrace-cluster-tools-"))
    try:
        return _run(place, raw=given.raw)
    except NoJvm as missing:
        print(missing, file=sys.stderr)
        return 1
    finally:
        if given.keep:
            print(f"left: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _run(place: Path, *, raw: bool) -> int:
    verdicts = Verdicts()
    began = time.monotonic()
    with ZooKeeper(place / "zookeeper") as zookeeper, ThreadPoolExecutor(2) as pool:
        ours = OurCluster(place / "ours", zookeeper.hosts)
        theirs = KafkaCluster(place / "kafka", zookeeper.hosts)
        with ours, theirs:
            sides = [ClusterSide(cluster, cluster.place / "tools") for cluster in (ours, theirs)]
            try:
                for name, steps in SECTIONS.items():
                    print(f"{name}, after {time.monotonic() - began:.0f} s", flush=True)
                    for step in steps():
                        compare(step, sides, pool, verdicts, raw=raw)
            finally:
                for side in sides:
                    side.close()
    sum_up(verdicts, time.monotonic() - began, "Kafka's tools on a cluster of three")
    return bool(verdicts.counts["DIFFERS"])


if __name__ == "__main__":
    sys.exit(main())

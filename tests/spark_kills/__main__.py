"""`make spark-kills`: so many kills at each named point, and what was counted after them."""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.spark.kit import Topics
from tests.spark_kills.sink_story import POINTS, SinkStory
from tests.support.process import BrokerProcess


def main() -> None:
    """Play until each point was met; AssertionError where a row is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="at each point")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--two-phase-commit", action="store_true")
    given = parser.parse_args()
    print(f"SEED={given.seed}")
    with tempfile.TemporaryDirectory() as place:
        settings: dict[str, Any] = {
            "transaction_two_phase_commit_enable": str(given.two_phase_commit).lower()
        }
        with BrokerProcess(Path(place) / "broker", **settings) as broker:
            topics = Topics(broker.bootstrap)
            names = [topics.create(3) for _ in range(2)]
            story = SinkStory(broker.bootstrap, names, Path(place) / "pipeline", given.seed)
            story.warm()
            for _ in range(given.kills):
                for point in POINTS:
                    story.play(point)
            topics.close()
    tell(story.counts, story.batch)


def tell(counts: Counter[str], batches: int) -> None:
    """Print what was counted."""
    for name, count in sorted(counts.items()):
        print(f"{name:40} {count:6}")
    print(f"{'batches, each written exactly once':40} {batches:6}")


if __name__ == "__main__":
    main()

"""kill -9 under load, again and again, while an idempotent librdkafka producer rides through.

`python -m tests.crash.kill_loop --kills 100` prints what was acknowledged, lost, duplicated and out
of order (the last three must be 0) and how long each start took. Status 1: a promise broke.
"""

import argparse
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.client.load import SETTLE_SECONDS_MAX, Kept, Load, kept
from tests.support.processes.process import BrokerProcess

TOPIC = "ridden"
PARTITIONS = 3
ACKNOWLEDGED_BETWEEN_KILLS_MIN = 1000
ANSWER_SECONDS_MAX = 1.0
PROMPT: dict[str, Any] = {
    "linger.ms": 2,
    "message.timeout.ms": SETTLE_SECONDS_MAX * 1000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""What has the producer back at once after a start."""


@dataclass(frozen=True)
class Verdict:
    """What the log holds against what was acknowledged."""

    kept: Kept
    failed: list[str]
    starts: list[float]
    between_kills_min: int

    def holds(self) -> bool:
        enough = self.between_kills_min >= ACKNOWLEDGED_BETWEEN_KILLS_MIN
        return self.kept.holds() and not self.failed and enough

    def prompt(self) -> bool:
        """Every start was quick: asked of a machine with nothing else to do (`make crash`)."""
        return max(self.starts) <= ANSWER_SECONDS_MAX

    def __str__(self) -> str:
        return (
            f"acknowledged {self.kept.acknowledged} (at least {self.between_kills_min} between "
            f"kills), {self.kept}, failed {len(self.failed)} {self.failed[:3]}; exec to answering: "
            f"max {max(self.starts):.3f} s over {len(self.starts)} starts"
        )


def ride(directory: Path, kills: int, seed: int, event_ms: int = 0) -> Verdict:
    """Kill the broker `kills` times at random moments of load and judge what it kept."""
    chance = random.Random(seed)
    broker = BrokerProcess(directory)
    starts = [broker.start()]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.create_topics(
        [NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})]
    ).values():
        future.result(30)
    load = Load(broker.bootstrap, TOPIC, PARTITIONS, PROMPT, event_ms)
    between_min = sys.maxsize
    try:
        for _ in range(kills):
            before = len(load.acknowledged)
            deadline = time.monotonic() + SETTLE_SECONDS_MAX
            while len(load.acknowledged) < before + ACKNOWLEDGED_BETWEEN_KILLS_MIN:
                if time.monotonic() > deadline:
                    raise AssertionError(f"no progress after a start:\n{broker.output[-3000:]}")
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.08))
            broker.kill()
            between_min = min(between_min, len(load.acknowledged) - before)
            starts.append(broker.start())
    finally:
        load.finish()
        verdict = (
            Verdict(kept(load, broker.bootstrap), load.failed, starts, between_min)
            if broker.process
            else None
        )
        broker.stop()
    assert verdict is not None
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"kill loop: {arguments.kills} kills, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-kill-") as directory:
        verdict = ride(Path(directory), arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills: {verdict}")
    return not (verdict.holds() and verdict.prompt())


if __name__ == "__main__":
    sys.exit(main())

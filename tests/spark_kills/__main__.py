"""`make spark-kills`: so many kills at each named point, and what was counted after them."""

import argparse
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spark.kit import Topics
from tests.spark.standalone import StandaloneCluster
from tests.spark_kills.live_points import (
    AMID_MERGE,
    DIE,
    LOSE_SHUFFLE,
    TABLE_POINTS,
    TOPIC_POINTS,
)  # fmt: skip
from tests.spark_kills.live_quarantine_points import LIVE_POINTS
from tests.spark_kills.live_quarantine_story import LiveQuarantineStory
from tests.spark_kills.live_story import SLOW, LiveStory
from tests.spark_kills.quarantine_points import STAGES
from tests.spark_kills.quarantine_story import SINKS, QuarantineStory
from tests.spark_kills.sink_story import POINTS, SinkStory
from tests.support.processes.process import BrokerProcess
from tests.support.spark.tables import FORMATS


def main() -> None:
    """Play until each point was met; AssertionError where a row is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="of played processes at each point")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--two-phase-commit", action="store_true")
    parser.add_argument(
        "--only",
        choices=("played", "live", "speculation", "quarantine", "live-quarantine"),
        help="Spark played, real drivers, drivers of a cluster that speculates, Spark played and"
        " real drivers with a quarantine, or only the drivers of these",
    )
    parser.add_argument("--live-kills", type=int, default=2, help="of real drivers at each point")
    parser.add_argument("--points", default="", help="only points whose names have this text")
    parser.add_argument("--table", choices=FORMATS, default="delta", help="of the live drivers")
    given = parser.parse_args()
    print(f"SEED={given.seed}")
    with tempfile.TemporaryDirectory() as place:
        settings: dict[str, Any] = {
            "transaction_two_phase_commit_enable": str(given.two_phase_commit).lower()
        }
        with BrokerProcess(Path(place) / "broker", **settings) as broker:
            topics = Topics(broker.bootstrap)
            if given.only in (None, "played"):
                names = [topics.create(3) for _ in range(2)]
                played = SinkStory(broker.bootstrap, names, Path(place) / "pipeline", given.seed)
                play(played, given.kills)
            if given.only in (None, "quarantine"):
                play_quarantine(topics, Path(place), given.kills)
            if given.only in (None, "quarantine", "live-quarantine"):
                play_live_quarantine(topics, Path(place), given.live_kills, given.points)
            if given.only in (None, "live", "speculation"):
                story = LiveStory(topics, Path(place) / "live", given.seed, given.table)
                if given.only != "speculation":
                    play_live(story, given.live_kills)
                play_speculation(story, given.live_kills)
                tell(story.counts)
            topics.close()


def play(story: SinkStory, kills: int) -> None:
    """Kill processes of a Spark that is played."""
    for _ in range(kills):
        for point in POINTS:
            story.play(point)
    for point in POINTS:
        check_killed(story.counts, f"killed {point}", kills)
    tell(story.counts)
    print(f"{'batches, each written exactly once':50} {story.batch:6}")


def play_quarantine(topics: Topics, place: Path, kills: int) -> None:
    """Kill the processes of a played Spark that quarantines; every other time the parser, or the
    check, is another one afterwards."""
    for (stage, points), kind in itertools.product(STAGES.items(), SINKS):
        began = time.monotonic()
        story = QuarantineStory(topics, place / f"quarantine-{stage}-{kind}", kind, stage)
        for number in range(kills):
            for at, refused in zip(points, itertools.cycle((2, 3, 5)), strict=False):
                then = refuse_every(refused) if (number + refused) % 2 else None
                story.play(at, then=then)
        for at in points:
            check_killed(story.counts, f"{story.name}: killed {at}", kills)
        tell(story.counts)
        print(f"{story.name + ': seconds':50} {time.monotonic() - began:6.0f}", flush=True)


def play_live_quarantine(topics: Topics, place: Path, kills: int, points: str) -> None:
    """Kill real drivers with a quarantine at each point."""
    story = LiveQuarantineStory(topics, place / "live-quarantine", 1)
    for _ in range(kills):
        for point in LIVE_POINTS:
            if points not in point:
                continue
            began = time.monotonic()
            story.play(point)
            print(f"{time.monotonic() - began:4.0f} s: driver killed, {point}", flush=True)
        story.complete()
    for point in LIVE_POINTS:
        if points in point:
            check_killed(story.counts, f"driver killed, {point}", kills)
    tell(story.counts)


def check_killed(counts: Counter[str], name: str, kills: int) -> None:
    """Raise AssertionError unless so many processes were killed at a point."""
    assert counts[name] >= kills, f"{name}: {counts[name]} of {kills} kills"


def refuse_every(nth: int) -> Callable[[int], bool]:
    """A parser that refuses each so-manieth record."""
    return lambda number: number % nth == 0


def play_live(story: LiveStory, kills: int) -> None:
    """Kill real drivers, disturb their tasks, and let two run at once."""
    for _ in range(kills):
        for point in (*TOPIC_POINTS, *TABLE_POINTS, *[AMID_MERGE][: story.kind != "delta"]):
            story.play(point)
            print(f"{time.strftime('%H:%M:%S')} driver killed, {point}", flush=True)
        story.complete()
    for point, action in (
        ("topic: mid-produce", DIE),
        ("table: mid-write", DIE),
        ("topic: mid-produce", LOSE_SHUFFLE),
    ):
        story.disturb(point, action)
    for point in ("topic: before the decision", "table: before the table commit"):
        print(f"{point}: two drivers: {story.overtake(point).strip()[-300:]}")
    story.complete()


def play_speculation(story: LiveStory, rounds: int) -> None:
    """Let Spark begin second attempts at slow tasks, which it does on a cluster alone."""
    place = story.place / "cluster"
    place.mkdir()
    with StandaloneCluster(place) as cluster:
        for _ in range(rounds):
            for point in ("topic: mid-produce", "table: mid-write"):
                for action in SLOW:
                    story.speculate(point, action, cluster.master)
                    print(f"{time.strftime('%H:%M:%S')} {SLOW[action]}, {point}", flush=True)
    story.complete()


def tell(counts: Counter[str]) -> None:
    """Print what was counted."""
    for name, count in sorted(counts.items()):
        print(f"{name:50} {count:6}")


if __name__ == "__main__":
    main()

"""Second attempts that Spark begins at slow tasks: how it is made to, and what became of them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BEGUN = "speculative attempts begun"
WON = "speculative attempts that were first"
GIVEN_UP = "attempts given up as the other was first"


def speculating(master: str, events: Path, environment: Mapping[str, str]) -> dict[str, object]:
    """Return a session's settings: second attempts as soon as can be, and Spark's notes of them."""
    events.mkdir(parents=True)
    return {
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
    }


def attempts_of(events: Path) -> Counter[str]:
    """Count what a driver that has ended noted of tasks with second attempts."""
    attempts: dict[tuple[int, int], list[int]] = {}
    speculative: set[int] = set()
    ended: set[int] = set()
    for event in _events(events):
        if event["Event"] not in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
            continue
        told = event["Task Info"]
        if event["Event"] == "SparkListenerTaskStart":
            attempts.setdefault((event["Stage ID"], told["Index"]), []).append(told["Task ID"])
            speculative |= {told["Task ID"]} if told["Speculative"] else set()
        elif event["Task End Reason"]["Reason"] == "Success":
            ended.add(told["Task ID"])
    several = [set(task) for task in attempts.values() if speculative & set(task)]
    return Counter({
        BEGUN: len(speculative),
        WON: len(speculative & ended),
        GIVEN_UP: sum(len(task - ended) for task in several if task & ended),
    })  # fmt: skip


def _events(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(directory.rglob("*")):
        if file.is_file() and not file.name.endswith(".crc"):
            yield from (json.loads(line) for line in file.read_text().splitlines() if line)

"""Exactly-once under kills of the only broker and of copiers.

Every kill comes after at least 100 commits since the one before; copiers are stopped for longer
than their group waits, too. Prints the counts.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.chaos.history import Verdict
from tests.chaos.load import ANY_BROKER, Load
from tests.support.processes.process import BrokerProcess

COMMITS_BETWEEN_KILLS_MIN = 100
PROGRESS_SECONDS_MAX = 90
PAUSE_SECONDS = 4.0


class Chaos:
    """One run."""

    def __init__(self, directory: Path, seed: int, **settings: object) -> None:
        self.chance = random.Random(seed)
        self.broker = BrokerProcess(directory / "broker", **(ANY_BROKER | settings))
        self.broker.start()
        self.kills: Counter[str] = Counter()
        self.between_min = sys.maxsize
        self.load = Load(self.broker.bootstrap, directory)

    def ride(self, seconds: float) -> None:
        """Disturb until the time is over."""
        notes = self.load.notes
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            before = notes.commits
            self._wait_for(partial(self._has_committed, before + COMMITS_BETWEEN_KILLS_MIN))
            time.sleep(self.chance.uniform(0.0, 0.1))
            self._disturb()
            notes.read()
            self.between_min = min(self.between_min, notes.commits - before)

    def _has_committed(self, commits: int) -> bool:
        return self.load.notes.commits >= commits

    def _disturb(self) -> None:
        how = self.chance.choices(["broker", "copier", "both", "pause"], [10, 6, 3, 1])[0]
        self.kills[how] += 1
        copier = self.chance.choice(self.load.copiers)
        if how in ("broker", "both"):
            self.broker.kill()
        if how in ("copier", "both"):
            copier.kill()
        if how in ("broker", "both"):
            self.broker.start()
        if how == "pause":
            copier.pause(PAUSE_SECONDS)

    def _wait_for(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while True:
            self.load.tend()
            if reached():
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"no progress:\n{self.broker.output[-3000:]}")
            time.sleep(0.02)

    def finish(self) -> Verdict:
        return self.load.finish()

    def close(self) -> None:
        """Leave nothing running."""
        self.load.close()
        self.broker.stop()


def ride(seconds: float, seed: int, **settings: object) -> bool:
    """One run, the broker with `settings`; prints what came of it. Whether everything held."""
    print(f"chaos of one broker: {seconds:.0f} seconds, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as directory:
        chaos = Chaos(Path(directory), seed, **settings)
        try:
            chaos.ride(seconds)
            verdict = chaos.finish()
        finally:
            chaos.close()
    problems = chaos.load.problems
    enough = chaos.between_min >= COMMITS_BETWEEN_KILLS_MIN
    told = ", ".join(f"{name} {count}" for name, count in sorted(chaos.kills.items()))
    print(f"{chaos.kills.total()} disturbances ({told}), at least {chaos.between_min} commits each")
    print(verdict)
    for problem in problems[:5]:
        print(f"  {problem}")
    return verdict.holds() and not problems and enough

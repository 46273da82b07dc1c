"""`python -m headrace.testing.sim SEED [STORY [FILE]]`: play stories, print their digests.

Plays all stories unless one is named. FILE receives the history, one line per event: two histories
can be compared. FIRST..LAST [--jobs N] instead of SEED plays the story of replicas with each of
these seeds, in N processes (by default one per processor), and prints which faults occurred and
which branches were taken; exits with 1 if a seed fails, or if one of those never occurred in 100
seeds or more.
"""

import argparse
import os
import sys
from pathlib import Path

from headrace.testing.sim import swarm
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replicated import Told
from headrace.testing.sim.stories import STORIES, play


def main() -> None:
    """Play the stories of the command line, print their digests, and exit."""
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.sim")
    parser.add_argument("seed", help="a number, or FIRST..LAST")
    parser.add_argument("story", nargs="?", choices=STORIES)
    parser.add_argument("file", nargs="?", type=Path, help="where the history goes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if ".." in asked.seed:
        first, last = map(int, asked.seed.split(".."))
        sys.exit(swarm.run(range(first, last + 1), asked.jobs))
    sys.exit(max(_play(name, int(asked.seed), asked.file) for name in _names(asked.story)))


def _names(story: str | None) -> list[str]:
    return list(STORIES) if story is None else [story]


def _play(name: str, seed: int, file: Path | None) -> int:
    try:
        outcome, history = play(STORIES[name], seed)
    except Broken as error:
        if file is not None:
            file.write_text("\n".join(error.lines))
        sys.stdout.write(f"seed {seed}, {name}: {error}\n")
        return 1
    if file is not None:
        file.write_text("\n".join(history.lines))
    told = f"{len(history.lines)} lines, digest {history.digest()}"
    sys.stdout.write(f"seed {seed}, {name}: {told}\n")
    if isinstance(outcome, Told) and file is not None:
        sys.stdout.write(swarm.table(outcome.counts))
    return 0


if __name__ == "__main__":
    main()

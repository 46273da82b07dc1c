"""`python -m headrace.testing.sim SEED [STORY [FILE]]`: play histories, print their digests.

All stories unless one is named. FILE gets its history, a line for each thing that happened: two of
them can be compared. FIRST..LAST instead of SEED plays the story of replicas with each of these
seeds, and prints which faults happened and which branches were taken; exit 1 where one fails.
"""

import sys
from collections import Counter
from pathlib import Path

from headrace.testing.sim.loop import Standstill
from headrace.testing.sim.replica_watch import Broken
from headrace.testing.sim.replicated import replicated_work
from headrace.testing.sim.stories import STORIES, play


def main() -> None:
    """Play and print."""
    seed, *rest = sys.argv[1:]
    if ".." in seed:
        first, last = map(int, seed.split(".."))
        sys.exit(_swarm(range(first, last + 1)))
    for name in rest[:1] or STORIES:
        _, history = play(STORIES[name], int(seed))
        for path in rest[1:]:
            Path(path).write_text("\n".join(history.lines))
        told = f"{len(history.lines)} lines, digest {history.digest()}"
        sys.stdout.write(f"seed {seed}, {name}: {told}\n")


def _swarm(seeds: range) -> int:
    counts: Counter[str] = Counter()
    failed = 0
    for seed in seeds:
        try:
            told, _ = play(replicated_work, seed)
        except (Broken, Standstill, RuntimeError) as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            continue
        counts += told.counts
        counts["acknowledged"] += told.acknowledged
        counts["read"] += told.read
        counts["elections"] += told.elections
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:8} {name}\n")
    sys.stdout.write(f"{len(seeds)} seeds, {failed} failed\n")
    return int(failed > 0)


if __name__ == "__main__":
    main()

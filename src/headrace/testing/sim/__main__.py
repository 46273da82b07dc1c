"""`python -m headrace.testing.sim SEED [STORY [FILE]]`: play histories, print their digests.

All stories unless one is named. FILE gets its history, a line for each thing that happened: two of
them can be compared.
"""

import sys
from pathlib import Path

from headrace.testing.sim.stories import STORIES, play


def main() -> None:
    """Play and print."""
    seed, *rest = sys.argv[1:]
    for name in rest[:1] or STORIES:
        _, history = play(STORIES[name], int(seed))
        for path in rest[1:]:
            Path(path).write_text("\n".join(history.lines))
        told = f"{len(history.lines)} lines, digest {history.digest()}"
        sys.stdout.write(f"seed {seed}, {name}: {told}\n")


if __name__ == "__main__":
    main()

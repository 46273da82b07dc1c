"""`python -m headrace.testing.sim SEED [FILE]`: play a history, print its digest.

FILE gets the history itself, a line for each thing that happened: two of them can be compared.
"""

import sys
from pathlib import Path

from headrace.testing.sim.stories import play


def main() -> None:
    """Play and print."""
    seed = int(sys.argv[1])
    _, history = play(seed)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text("\n".join(history.lines))
    sys.stdout.write(f"seed {seed}: {len(history.lines)} lines, digest {history.digest()}\n")


if __name__ == "__main__":
    main()

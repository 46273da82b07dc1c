"""Play the cases of a group's start, record what happens, and write the table of the docs.

python -m tests.outside.rocketmq.first_start 5 4.9 new-queue off    # Headrace by these rules
python -m tests.outside.rocketmq.first_start 4.9.7 5.5.0            # RocketMQ itself
python -m tests.outside.rocketmq.first_start                        # the docs alone
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.outside.rocketmq.first_start import docs, originals, ours
from tests.support.rocketmq.recorded_starts import COLUMNS, RULES, with_column, write


def main(given: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("columns", nargs="*", help=f"any of {', '.join(COLUMNS)}")
    columns = parser.parse_args(given).columns
    if unknown := set(columns).difference(COLUMNS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for column in columns:
        with tempfile.TemporaryDirectory() as folder:
            play = ours.play_rule if column in RULES else originals.record
            write(with_column(column, play(column, Path(folder))))
    docs.PAGE.write_text(docs.page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""README's first hour on a bare Debian: `make first-hour`, or `python -m tests.first_hour`.

A root of Debian 13 made by debootstrap gets a copy of this tree, python3 and make, and the
machine's own configuration of apt and pip, nothing else. README's blocks are then run in it one
after the other, those too that `make docs-test` only shows. What a reader would see is written to
out/first_hour.txt: that each block ends well is judged here, that it is friendly by who reads it.
Needs root, debootstrap and a network. Status 1 where a block failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.processes import ROOT
from tests.support.processes.debian_root import copy_bare, make_bare

OUT = ROOT / "out"


def main() -> int:
    """Make the root and walk through README in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=OUT / "debian", help="the bare system")
    parser.add_argument("--keep", action="store_true", help="keep the root that was used")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("first-hour: a root of its own is made and entered: run it as root")
    OUT.mkdir(exist_ok=True)
    make_bare(arguments.base, "first-hour")
    root = OUT / "first_hour_root"
    copy_bare(arguments.base, root)
    walk = [sys.executable, "-m", "tests.first_hour.walk", str(root), str(OUT / "first_hour.txt")]
    try:
        # With the last process in them what was mounted and started is gone.
        within = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.run([*within, *walk], cwd=ROOT, check=False).returncode
    finally:
        if not arguments.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

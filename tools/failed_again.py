"""Run the tests that failed in the last `make test` once more, alone: CI's second look.

Ends with status 0 when there are at most `FAILED_MAX` of them and all pass now; names them then, as
tests that fail beside others are faults to be mended (docs/adr/0009).
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED_MAX = 3
FAILED_PATH = Path(".pytest_cache/v/cache/lastfailed")


def failed_tests() -> list[str]:
    """The ids of the tests, or files, that failed in the last run."""
    if not FAILED_PATH.exists():
        return []
    return sorted(json.loads(FAILED_PATH.read_text()))


def main() -> int:
    failed = failed_tests()
    if not 0 < len(failed) <= FAILED_MAX:
        print(f"{len(failed)} failed: not run again (1 to {FAILED_MAX} would be)")
        return 1
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *failed]
    status = subprocess.run(command, check=False).returncode
    for name in failed:
        print(f"{'FLAKY' if status == 0 else 'failed twice or beside one that did'}: {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())

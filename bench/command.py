"""CPU seconds of the command itself for a million lines of 100 bytes: produce, consume, --json.

python -m bench.command [rounds]

The best of the rounds is held to the bounds of an install without extras and of one with `arrow`:
the command uses nothing of that, so both are measured at once.
"""

import os
import subprocess
import sys
from pathlib import Path

from bench.subjects import Headrace

LINES = 1_000_000
WITH_ARROW, BASE = "with arrow", "base install"
BOUNDS = {
    "produce": {WITH_ARROW: 2.0, BASE: 4.0},
    "consume": {WITH_ARROW: 1.5, BASE: 3.0},
    "consume --json": {WITH_ARROW: 4.0, BASE: 6.0},
}
"""CPU seconds at most."""
_WITHOUT_EXTRAS = (
    "import sys; sys.modules.update(dict.fromkeys(('pyarrow', 'numba', 'numpy', 'pandas')));"
    "from headrace.cli.main import main; main(sys.argv[1:])"
)


def cpu_seconds(words: list[str], out: Path) -> float:
    """Run the command without the extras; its user and system time."""
    with out.open("wb") as file:
        command = [sys.executable, "-c", _WITHOUT_EXTRAS, *words]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"headrace {' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def rounds(count: int) -> None:
    """Print the best of each, and whether it keeps its bounds."""
    with Headrace(durable=False) as broker:
        lines, out = broker.directory / "lines", broker.directory / "out"
        lines.write_bytes(b"".join(b"%0100d\n" % number for number in range(LINES)))
        where = ["-b", broker.bootstrap]
        reading = ["consume", "lines-0", "-o", "start", "-e", *where]
        best = dict.fromkeys(BOUNDS, float("inf"))
        for number in range(count):
            words = ["produce", f"lines-{number}", str(lines), *where]
            best["produce"] = min(best["produce"], cpu_seconds(words, out))
            best["consume"] = min(best["consume"], cpu_seconds(reading, out))
            if out.read_bytes() != lines.read_bytes():
                raise SystemExit("what was consumed is not what was produced")
            taken = cpu_seconds([*reading, "--json"], out)
            best["consume --json"] = min(best["consume --json"], taken)
    for name, seconds in best.items():
        held = ", ".join(
            f"{install} {bound:g} {'held' if seconds <= bound else 'MISSED'}"
            for install, bound in BOUNDS[name].items()
        )
        print(f"{name:<15} {seconds:.2f} CPU s  ({held})")


if __name__ == "__main__":
    rounds(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

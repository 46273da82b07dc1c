"""The lock of a pipeline between processes."""

import subprocess
import sys
from pathlib import Path

from headrace.pipeline.run.lock import Holder, held, holder_of

HOLDS = """
import sys, time
from pathlib import Path
from headrace.pipeline.run.lock import Holder, held
with held(Path(sys.argv[1]), Holder("other", 7, "db8", "")):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    """Rule 14: the kernel releases the lock with the process."""
    lock = tmp_path / "lock"
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(lock)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        found = holder_of(lock)
        assert found is not None
        assert found.run == "other"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    own = Holder("r1", 1, "db7", "")
    with held(lock, own):
        assert holder_of(lock) == own

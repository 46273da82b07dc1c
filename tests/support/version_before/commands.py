"""The command `headrace` of this version, as a process."""

import subprocess

from tests.support.processes.process import HEADRACE


def run(*words: str) -> str:
    """Run a command that must succeed; return its standard output."""
    done = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout

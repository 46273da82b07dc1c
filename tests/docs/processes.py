"""Run the blocks of one page: shell commands, processes behind them, one Python session."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = ROOT / ".venv"
TOOLS = ENVIRONMENT / "bin"
POLL_SECONDS = 0.05
END_SECONDS_MAX = 30.0
"""How long a process that is asked to end may take."""


class Ran(NamedTuple):
    """What came of a block."""

    exit_code: int | None
    """None: it did not end, or did not print what was waited for, in time."""
    output: str


class Reader:
    """A user in a fresh directory, the `headrace` command on the PATH."""

    def __init__(self, place: Path, environment: Path = ENVIRONMENT) -> None:
        """`place`: an empty directory, or a copy of the tree; `environment`: a virtual one."""
        self.place = place
        self.environment = environment
        self._outputs = place.parent / "outputs"
        self._outputs.mkdir()
        self._behind: list[subprocess.Popen[bytes]] = []
        self._python: tuple[subprocess.Popen[bytes], int, Path] | None = None
        home = place.parent / "home"
        home.mkdir()
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        self.environ: Mapping[str, str] = kept | {
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CACHE_HOME": cache,  # compiled code and Java are not made anew for each page
            "TERM": "dumb",
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
        }

    def command(self, text: str) -> Sequence[str]:
        """Return the process that runs commands."""
        return ["bash", "-euo", "pipefail", "-c", text]

    def shell(self, text: str, timeout_s: float, interrupt: str | None = None) -> Ran:
        """Run commands; with `interrupt` press Ctrl-C once that was printed."""
        process, log = self._start(self.command(text))
        try:
            if interrupt is None:
                return Ran(_wait(process, timeout_s), log.read_text(errors="replace"))
            if not _printed(process, log, interrupt, timeout_s):
                return Ran(None, log.read_text(errors="replace"))
            os.killpg(process.pid, signal.SIGINT)
            code = _wait(process, END_SECONDS_MAX)
            ended = 0 if code in {130, -signal.SIGINT} else code
            return Ran(ended, log.read_text(errors="replace"))
        finally:
            _kill(process)

    def behind(self, text: str, until: str, timeout_s: float) -> Ran:
        """Start commands that go on, and return when they have printed `until`."""
        process, log = self._start(self.command(text))
        self._behind.append(process)
        ready = _printed(process, log, until, timeout_s)
        return Ran(0 if ready else None, log.read_text(errors="replace"))

    def python(self, text: str, file: str, line: int, timeout_s: float) -> Ran:
        """Run a block in the page's Python session."""
        process, answers, log = self._python = self._python or self._start_python()
        before = log.stat().st_size
        request = json.dumps({"text": text, "file": file, "line": line}) + "\n"
        assert process.stdin is not None
        process.stdin.write(request.encode())
        process.stdin.flush()
        ready, _, _ = select.select([answers], [], [], timeout_s)
        answer = os.read(answers, 4096) if ready else b""
        output = log.read_bytes()[before:].decode(errors="replace")
        if not answer:  # it hangs or has died: the next block begins anew
            self._end_python()
            return Ran(None, output)
        return Ran(json.loads(answer)["exit"], output)

    def close(self) -> None:
        """End everything that still runs."""
        self._end_python()
        for process in reversed(self._behind):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                _wait(process, END_SECONDS_MAX)
            _kill(process)

    def _start(self, command: Sequence[str]) -> tuple["subprocess.Popen[bytes]", Path]:
        log = self._outputs / f"{len(list(self._outputs.iterdir()))}.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.place, env=self.environ, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return process, log

    def _start_python(self) -> tuple["subprocess.Popen[bytes]", int, Path]:
        log = self._outputs / "python.txt"
        answers, theirs = os.pipe()
        # The session finds the descriptor under the number 3.
        launch = f"exec 3>&{theirs}; exec python -u {HERE / 'python_session.py'}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", launch], cwd=self.place, env=self.environ, start_new_session=True,
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, pass_fds=(theirs,),
            )  # fmt: skip
        os.close(theirs)
        return process, answers, log

    def _end_python(self) -> None:
        if self._python is not None:
            process, answers, _ = self._python
            assert process.stdin is not None
            process.stdin.close()
            _wait(process, END_SECONDS_MAX)
            _kill(process)
            os.close(answers)
            self._python = None


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> int | None:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def _printed(process: "subprocess.Popen[bytes]", log: Path, text: str, timeout_s: float) -> bool:
    """Wait until it has printed the text; False where it ended first, or in the time did not."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if text in log.read_text(errors="replace"):
            return True
        if ended:
            return False
        time.sleep(POLL_SECONDS)
    return False


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()

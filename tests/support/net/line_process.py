"""A process that is told line by line what to do, and answers each line by one of JSON."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from tests.support.processes.process import wait_or_kill

END_SECONDS_MAX = 30
_ERROR_CHARACTERS_MAX = 3000


class LineProcess:
    """The side that asks; within a `with`."""

    def __init__(
        self, command: Sequence[str], directory: Path, variables: Mapping[str, str]
    ) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            cwd=directory, env=variables,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, at once where something failed. A JVM ends with the Python that started it."""
        if error is not None:
            self._process.terminate()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        wait_or_kill(self._process, END_SECONDS_MAX)
        self._said.close()

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def ask(self, request: object) -> Any:
        """Return the answer; RuntimeError, with what it wrote to standard error, if it ended."""
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise RuntimeError("the process has no pipes")
        try:
            pipes[0].write(json.dumps(request) + "\n")
            pipes[0].flush()
            answer = pipes[1].readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._process.wait(END_SECONDS_MAX)
            self._said.seek(0)
            raise RuntimeError(f"failed:\n{self._said.read()[-_ERROR_CHARACTERS_MAX:]}")
        return json.loads(answer)


def answers_alone() -> TextIO:
    """Return standard output for answers; whatever children write to theirs goes to the error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def serve(answers: TextIO, answer: Callable[[Any], object]) -> None:
    """Be the side that answers, until nothing more is asked."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)

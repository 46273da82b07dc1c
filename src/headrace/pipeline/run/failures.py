"""Errors of a streaming query as one sentence, an exit code, and whether a restart may help.

Spark reports an error of a Python process as a text. It names our errors by their classes and
users' errors by a traceback.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.pipeline.exit_codes import CHECK_FAILED, DATA_LOST
from headrace.pipeline.run.planned_batch import unfinished
from headrace.pipeline.run.shipped_code import ARCHIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.pipeline.declarations import Check

FAILED, USAGE, UNREACHABLE, NOT_FOUND = 1, 2, 3, 4
_OURS = re.compile(
    r"\bheadrace\.[\w.]+\.(\w+): (.*?)\s*(?=\n? ?SQLSTATE:|\n\n|\n=== |\Z)", re.DOTALL
)
_PICKLED = re.compile(r"PicklingError: Could not serialize object: (\w+): ([^\n]*)")
"""An error of the topic sink, which begins its write when Spark sends its writer to tasks."""
_CODES = {
    "BrokerAwayError": UNREACHABLE,
    "SinkAwayError": UNREACHABLE,
    "DataLossError": DATA_LOST,
    "CheckFailedError": CHECK_FAILED,
    "TooManyRefusedError": CHECK_FAILED,
    "RefusedValueError": CHECK_FAILED,
    "UnknownTopicError": NOT_FOUND,
    "OptionError": USAGE,
    "SinkError": FAILED,
}
"""Exit codes of our errors by class; FAILED for all others."""
_ADVICE = re.compile(
    r"(; set failOnDataLoss to false.*|\. Options: mode=.*|; create it, or corr.*|"
    r": correct valueSchema, .*|, or raise quarantineShareMax)"
)
"""Advice about options of a source, which a pipeline's author does not see."""
_WORKER_LOST = re.compile(
    r"failed to connect back|Python worker exited unexpectedly|ExecutorLostFailure|"
    r"Executor heartbeat timed out|executor \S+ exited|Remote RPC client disassociated"
)
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in (.+)$', re.MULTILINE)
_RECORD = re.compile(r"^\(record (\S+@\d+)\)$", re.MULTILINE)
"""The note that a reading task adds to an error of a parser."""
_RAISED = re.compile(r"^(\w[\w.]*(?:: .*)?)$", re.MULTILINE)
_FRAGMENT = re.compile(r"== SQL \([^)]*\) ==\n(.*?)\n\^+", re.DOTALL)
_PREFIX = re.compile(r"\[STREAM_FAILED\].*?terminated with exception: ")
_TAIL = "=== Streaming Query ==="


class FlowPlace(NamedTuple):
    """The facts about a flow that complete the text of its errors."""

    name: str
    directory: Path
    """The project's directory."""
    checkpoint: Path
    checks: Sequence[Check]


@dataclass(frozen=True)
class Failure:
    """The end of a query by an error."""

    code: int
    text: str
    passing: bool = False
    """Whether the error passes by itself, so that a restart may succeed."""


def failure_of(text: str, flow: FlowPlace) -> Failure:
    """Return the failure that Spark's text of a query's error describes."""
    said = _PREFIX.sub("", text.partition(_TAIL)[0], count=1).strip()
    ours = _own_error(said)
    if ours is not None:
        kind, sentence = ours[1], _ADVICE.sub("", " ".join(ours[2].split()))
        code = _CODES.get(kind, FAILED)
        if code == DATA_LOST:
            sentence += f"; run with --accept-loss {flow.name} to go on without them"
        return Failure(code, f"{flow.name}: {sentence}", passing=code == UNREACHABLE)
    if _WORKER_LOST.search(said):
        return Failure(FAILED, f"{flow.name}: a worker was lost: {_first_line(said)}", passing=True)
    batch = unfinished(flow.checkpoint)
    where = f", {batch}" if batch is not None else ""
    raised = _raised(said, flow.directory)
    if raised is not None:
        return Failure(FAILED, f"{flow.name}: {raised}{_record(said, where)}")
    check = _check_of(said, flow.checks)
    return Failure(FAILED, f"{flow.name}: {check}{_first_line(said)}{where}")


def _record(said: str, where: str) -> str:
    """Return the end of the text about an error of the project's code: a parser's names a record.

    `where`: the batch, after a comma.
    """
    found = _RECORD.findall(said)
    if not found:
        return where
    return (
        f", record {found[-1]}{where}; to quarantine such records, raise hp.Unreadable in the"
        " parser"
    )


def _own_error(said: str) -> re.Match[str] | None:
    """Return class and text of an error of ours; None if the text is about another one."""
    pickled = _PICKLED.search(said)
    if pickled is not None and pickled[1] in _CODES:
        return pickled
    found = _OURS.search(said)
    # Below a traceback it is a quotation, or the context of an error of the project's code.
    if found is None or "Traceback (most recent call last)" in said[: found.start()]:
        return None
    return found


def _raised(said: str, directory: Path) -> str | None:
    """Return the exception of a Python traceback with the project's last function and line."""
    _, found, traceback = said.rpartition("Traceback (most recent call last):")
    if not found:
        return None
    frames = [(ARCHIVE.sub("", file), line, name) for file, line, name in _FRAME.findall(traceback)]
    own = [
        (file.removeprefix(f"{directory}/"), line, name)
        for file, line, name in frames
        if file.startswith(f"{directory}/") or not file.startswith(("/", "<"))
    ]
    last = [
        line for line in _RAISED.findall(traceback) if not line.startswith(("File ", "SQLSTATE"))
    ]
    error = last[-1] if last else "an exception"
    if not own and not frames:
        return error
    file, line, name = own[-1] if own else frames[-1]
    return f"{name} ({file}:{line}): {error}"


def _check_of(said: str, checks: Sequence[Check]) -> str:
    """Return "check …: " for an error in the expression of a check, else an empty string."""
    fragment = _FRAGMENT.search(said)
    if fragment is None:
        return ""
    names = [repr(check.name) for check in checks if fragment[1].strip() in check.condition]
    return f"check {' or '.join(names)} raised an error: " if names else ""


def _first_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[0].partition(" SQLSTATE:")[0] if lines else "no reason given"

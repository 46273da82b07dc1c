"""pytest's plugin for a run of `tests.mutants`: writes what each test came to, one JSON line each.

Where that is asked for, it also writes which files the process imported, one line each. Under
coverage it names the running test as the context, so that each line knows its tests.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

OUTCOMES = "HEADRACE_MUTANTS_OUTCOMES"
IMPORTED = "HEADRACE_MUTANTS_IMPORTED"


def _note(node_id: str, outcome: str, seconds: float) -> None:
    path = os.environ.get(OUTCOMES)
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps([node_id, outcome, seconds]) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test that runs to coverage, where lines are counted."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if measured is not None:
            measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome and seconds of each phase of a test."""
    _note(report.nodeid, report.outcome, report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write that a file could not be collected."""
    if report.failed:
        _note(report.nodeid, "failed", 0.0)


def pytest_sessionfinish() -> None:
    """Write which files were imported."""
    path = os.environ.get(IMPORTED)
    if path:
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        Path(path).write_text("".join(f"{file}\n" for file in sorted(filter(None, files))))

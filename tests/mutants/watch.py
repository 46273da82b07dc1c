"""pytest's plugin for a run of `tests.mutants`: writes what each test came to, one JSON line each.

Under coverage it names the running test as the context, so that each line knows its tests.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

OUTCOMES = "HEADRACE_MUTANTS_OUTCOMES"


def _note(node_id: str, outcome: str, seconds: float, phase: str) -> None:
    path = os.environ.get(OUTCOMES)
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps([node_id, outcome, seconds, phase]) + "\n")


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
    _note(report.nodeid, report.outcome, report.duration, report.when)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write that a file could not be collected."""
    if report.failed:
        _note(report.nodeid, "failed", 0.0, "collect")

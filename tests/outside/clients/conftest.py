"""One broker for the whole matrix, and the matrix itself, printed when all is done.

`HEADRACE_TEST_BOOTSTRAP` points the same scenarios at another broker, a real Kafka say: that is how
one learns whether a scenario asks too much.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.outside.clients.clients.base import QUICK
from tests.support.processes.process import BrokerProcess

PROPERTY = "client x scenario"
"""Marks the cells of the matrix among the tests' reports, which may come from other processes."""


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("compat"), **QUICK) as broker:
        yield broker.bootstrap


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report: pytest.TestReport = yield
    cell = getattr(item, "callspec", None)
    if cell is not None and {"client", "scenario"} <= cell.params.keys():
        key = (cell.params["scenario"], cell.params["client"])
        report.user_properties.append((PROPERTY, key))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    results: dict[tuple[str, str], str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY and (report.when == "call" or not report.passed):
                    results[value[0], value[1]] = report.outcome
    if not results:
        return
    clients = sorted({client for _, client in results})
    scenarios = list(dict.fromkeys(name for name, _ in sorted(results)))
    words = {"passed": "passed", "failed": "FAILED", "skipped": "n/a", "": "-"}
    terminalreporter.section("client x scenario")
    terminalreporter.write_line(f"{'':28}" + "".join(f"{name:>18}" for name in clients))
    for name in scenarios:
        cells = [words[results.get((name, client), "")] for client in clients]
        terminalreporter.write_line(f"{name:28}" + "".join(f"{cell:>18}" for cell in cells))
    passed = sum(outcome == "passed" for outcome in results.values())
    terminalreporter.write_line(f"{passed} of {len(results)} passed")

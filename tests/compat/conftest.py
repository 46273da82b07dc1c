"""One broker for the whole matrix, and the matrix itself, printed when all is done.

`HEADRACE_TEST_BOOTSTRAP` points the same scenarios at another broker, a real Kafka say: that is how
one learns whether a scenario asks too much.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.process import BrokerProcess

RESULTS = pytest.StashKey[dict[tuple[str, str], str]]()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    quick: dict[str, Any] = {
        "group_consumer_min_heartbeat_interval_ms": 100,
        "group_consumer_heartbeat_interval_ms": 300,
        "group_consumer_min_session_timeout_ms": 6_000,
        "group_consumer_session_timeout_ms": 6_000,
        "group_consumer_assignment_interval_ms": 100,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    }
    with BrokerProcess(tmp_path_factory.mktemp("compat"), **quick) as broker:
        yield broker.bootstrap


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    report: pytest.TestReport = yield
    cell = getattr(item, "callspec", None)
    if cell is not None and {"client", "scenario"} <= cell.params.keys():
        results = item.config.stash.setdefault(RESULTS, {})
        key = (cell.params["scenario"], cell.params["client"])
        if report.when == "call" or report.skipped or report.failed:
            results[key] = report.outcome
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    results = config.stash.get(RESULTS, None)
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

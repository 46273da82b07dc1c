"""Says at the end of a run how many crash states were looked at.

The counts travel with the tests' reports: tests run in several processes (pytest-xdist), of which
one has the terminal.
"""

from collections import defaultdict
from typing import Any

import pytest

from tests.support.log.crash import COUNTS, Count

PROPERTY = "crash states"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    report: pytest.TestReport = yield
    if report.when == "call":
        report.user_properties += [(PROPERTY, (name, *count)) for name, count in COUNTS.items()]
        COUNTS.clear()
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    totals: dict[str, Count] = defaultdict(Count)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    totals[value[0]] += Count(*value[1:])
    if not totals:
        return
    terminalreporter.section("crash states")
    for name, count in [*sorted(totals.items()), ("in all", sum(totals.values(), Count()))]:
        terminalreporter.write_line(
            f"{name:45} {count.cuts:6} cuts {count.states:7} states {count.distinct:7} different"
        )

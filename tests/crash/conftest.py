"""Says at the end of a run how many crash states were looked at."""

import pytest

from tests.support.crash import COUNTS, Count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not COUNTS:
        return
    terminalreporter.section("crash states")
    total = sum(COUNTS.values(), Count())
    for name, count in [*sorted(COUNTS.items()), ("in all", total)]:
        terminalreporter.write_line(
            f"{name:45} {count.cuts:6} cuts {count.states:7} states {count.distinct:7} different"
        )

"""Hold tests/unit to one process: a test fails that starts another, or a broker on sockets.

And fixtures for tests on real time, which would wait for whole seconds otherwise.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.one_process import OneProcess

WATCH = OneProcess()


@pytest.fixture
def frequent_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have connection tables look for missed deadlines every tenth of a second."""
    monkeypatch.setattr("headrace.net.table.SWEEP_SECONDS", 0.1)


@pytest.fixture
def short_discards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have HTTP connections read refused requests for an instant only."""
    monkeypatch.setattr("headrace.frontends.http.session.DISCARD_SECONDS", 0.05)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch the test and the fixtures that it is the first to ask for.

    pytest calls this hook for the tests of all folders.
    """
    folder = Path(__file__).parent
    if item.path.is_relative_to(folder.parent) and not item.path.is_relative_to(folder):
        return (yield)
    with pytest.MonkeyPatch.context() as patched:
        WATCH.begin(patched)
        try:
            return (yield)
        finally:
            WATCH.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail for what was started, even where the test's own code caught every error."""
    result = yield
    if started := WATCH.take():
        pytest.fail(f"belongs to tests/broker, as it starts {'; '.join(started)}", pytrace=False)
    return result

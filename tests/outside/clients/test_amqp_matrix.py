"""What the matrix of `make amqp-test` prints, and when it fails."""

import logging
from collections.abc import Iterator

import pytest

from tests.outside.amqp import __main__ as judge
from tests.outside.amqp import known
from tests.outside.amqp.address import Address
from tests.outside.matrix.scenario import Scenario, Skipped

URL = ["--url", "amqp://127.0.0.1:1/", "--broker", "ours"]


def _hold(_: Address) -> None:
    pass


def _fail(_: Address) -> None:
    raise AssertionError("it went wrong")


def _skip(_: Address) -> None:
    raise Skipped("go is not installed")


@pytest.fixture(autouse=True)
def logs_again() -> Iterator[None]:
    """The judge silences what clients log."""
    yield
    logging.disable(logging.NOTSET)


def _judge(monkeypatch: pytest.MonkeyPatch, *scenarios: Scenario) -> int:
    monkeypatch.setattr(judge, "SCENARIOS", list(scenarios))
    return judge.main(URL)


def test_what_holds_and_what_cannot_be_played_is_no_failure_and_the_cell_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go = Scenario("go", "queues", "a queue is there", _skip)
    assert _judge(monkeypatch, Scenario("java", "queues", "a queue is there", _hold), go) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in printed if line.startswith("queues")] == [
        ["queues", "ok", "left", "out"]
    ]
    assert "ours: go: left out: go is not installed" in printed
    assert printed[-1] == "ours: 2 scenarios: 1 hold, 0 fail, 0 known to differ, 1 left out"


def test_one_that_fails_fails_the_run_unless_it_is_known_to_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Scenario("java", "queues", "a queue is gone", _fail)
    assert _judge(monkeypatch, wrong, Scenario("java", "queues", "it is there", _hold)) == 1
    printed = capsys.readouterr().out
    assert "ours: FAILED: java: a queue is gone: AssertionError: it went wrong" in printed
    assert "1/2" in printed
    monkeypatch.setattr(known, "OURS", {("java", "a queue is gone"): "for a reason"})
    assert _judge(monkeypatch, wrong) == 0
    assert "known to differ: java: a queue is gone: for a reason" in capsys.readouterr().out

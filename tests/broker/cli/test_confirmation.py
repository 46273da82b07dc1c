"""Verbs that delete for good ask on a terminal, and do as scripts say without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says, sayer

VERBS = [
    ("topic delete orders", "Delete orders with all records? [y/N]"),
    ("topic delete a b", "Delete a and b with all records? [y/N]"),
    ("group delete billing", "Delete billing with all committed offsets? [y/N]"),
    ("share delete workers", "Delete workers with all delivery state? [y/N]"),
    ("user delete alice", "of user alice? [y/N]"),
    ("amqp user delete alice", "Delete user alice with all its permissions? [y/N]"),
    ("amqp exchange delete e", "Delete exchange e in vhost / with all its bindings? [y/N]"),
]


class _Terminal:
    def __init__(self, answer: str, *, terminal: bool = True) -> None:
        self._answer = answer
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def readline(self) -> str:
        return self._answer


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        yield broker


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    return sayer(broker.bootstrap, capsys)


@pytest.mark.parametrize(("verb", "question"), VERBS)
def test_deleting_asks_on_a_terminal_alone(
    broker: BrokerThread,
    says: Says,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    question: str,
) -> None:
    if verb.startswith("user"):
        secret = tmp_path / "secret"
        secret.write_text("a long password\n")
        says("user", "create", "alice", "--password-file", str(secret))
    monkeypatch.setattr("sys.stdin", _Terminal("n\n"))
    code, _, told = says(*verb.split())
    assert question in told
    assert code == 1
    assert "nothing was changed" in told
    for more, stdin in (["--yes"], _Terminal("n\n")), ([], _Terminal("", terminal=False)):
        monkeypatch.setattr("sys.stdin", stdin)
        _, _, told = says(*verb.split(), *more)
        assert question not in told
        assert "nothing was changed" not in told

"""`headrace user`, and commands of somebody who must say who he is."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, asker, sayer
from tests.support.security.sasl_kit import guarded

SECRET = "typed-secret-77"


@pytest.fixture
def guarded_broker() -> Iterator[BrokerThread]:
    with guarded() as running:
        yield running


@pytest.fixture
def says(guarded_broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    """Asks by the listener that lets everybody in."""
    return sayer(f"127.0.0.1:{guarded_broker.server.listeners[1].port}", capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    return asker(says)


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    return str(file)


def properties(tmp_path: Path, mechanism: str, password: str = SECRET) -> str:
    file = tmp_path / f"{mechanism}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="alice" password="{password}";\n'
    )
    return str(file)


def test_a_user_is_created_listed_altered_and_deleted(
    asked: Asked, says: Says, password_file: str
) -> None:
    assert says("user", "list") == (0, "", "there are no users\n")
    code, made = asked("user create", "alice", "--password-file", password_file)
    assert (code, made) == (0, {"user": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]})
    code, refused = asked("user create", "alice", "--password-file", password_file)
    assert (code, "there is a user alice already" in refused["error"]["message"]) == (1, True)
    asked(
        "user alter", "alice", "--password-file", password_file, "--mechanism", "SCRAM-SHA-512",
        "--iterations", "8192",
    )  # fmt: skip
    assert asked("user list")[1] == [
        {
            "user": "alice",
            "credentials": [
                {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
                {"mechanism": "SCRAM-SHA-512", "iterations": 8192},
            ],
        }
    ]
    assert "8192" in says("user", "list")[1]
    _, gone = asked("user delete", "alice", "--mechanism", "SCRAM-SHA-256")
    assert gone["mechanisms"] == ["SCRAM-SHA-256"]
    code, refused = asked("user delete", "alice", "--mechanism", "SCRAM-SHA-256")
    assert (code, "no credential for" in refused["error"]["message"]) == (1, True)
    assert asked("user delete", "alice")[1]["mechanisms"] == ["SCRAM-SHA-512"]
    assert asked("user list")[1] == []
    for verb in ("alter", "delete"):
        code, refused = asked(f"user {verb}", "alice")
        assert (code, refused["error"]["code"]) == (4, "NOT_FOUND")


def test_who_was_created_is_let_in_with_a_file_of_settings(
    guarded_broker: BrokerThread, asked: Asked, password_file: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked("user create", "alice", "--password-file", password_file)
    says = sayer(guarded_broker.bootstrap, capsys)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        file = properties(tmp_path, mechanism)
        assert says("topic", "list", "--command-config", file)[0] == 0
        monkeypatch.setenv("HEADRACE_COMMAND_CONFIG", file)
        assert says("topic", "list")[0] == 0
        monkeypatch.delenv("HEADRACE_COMMAND_CONFIG")
    wrong = properties(tmp_path, "SCRAM-SHA-512", "wrong-secret-78")
    code, _, told = says("topic", "list", "--command-config", wrong)
    assert code == 3
    assert "user alice: Authentication failed" in told
    assert "wrong-secret-78" not in told + caplog.text
    assert SECRET not in caplog.text
    # Without a word of who asks, it is tried again until the request's time is over.
    assert says("topic", "list", "--request-timeout", "1")[0] == 3


def test_a_password_comes_by_standard_input_too(
    guarded_broker: BrokerThread, asked: Asked, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\nand more\n"))
    assert asked("user create", "alice", "--password-file", "-")[0] == 0
    says = sayer(guarded_broker.bootstrap, capsys)
    file = properties(tmp_path, "SCRAM-SHA-256")
    assert says("topic", "list", "--command-config", file)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "user create alice",
            "cannot ask for the password without a terminal: pass --password-file",
        ),
        ("user create alice --password-file /nowhere/x", "no such file"),
        ("user create alice --password-file /dev/null", "the first line is empty"),
        ("user create alice --mechanism PLAIN", "must be one of SCRAM-SHA-256"),
        ("user create alice --iterations 4095", "must be 4096 to 16384"),
        ("topic list -X sasl.password=typed-secret-77", "other users can read secrets"),
        ("topic list --command-config /nowhere/x", "no such file"),
    ],
)
def test_a_slip_is_named_with_its_remedy(words: str, said: str, says: Says) -> None:
    code, _, told = says(*words.split())
    assert (code, said in told, SECRET in told) == (2, True, False), told


def test_a_typed_password_is_typed_twice_and_not_shown(
    asked: Asked, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter([SECRET, SECRET, SECRET, "other"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    assert says("user", "create", "alice")[0] == 0
    code, _, told = says("user", "alter", "alice")
    assert (code, "the two passwords differ" in told) == (2, True)
    assert SECRET not in told

"""`headrace token`: a token's secret is in a file of its owner's, and on no command line."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config.authentication.jaas import PLAIN_MODULE
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, asker, sayer
from tests.support.security.sasl_kit import PASSWORD, guarded


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded(**{"delegation.token.secret.key": "planted-secret"}) as running:
        yield running


def by_password(tmp_path: Path, user: str, password: str) -> str:
    file = tmp_path / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="{user}" password="{password}";\n'
    )
    return str(file)


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    return sayer(broker.bootstrap, capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    return asker(says)


def test_a_token_is_created_used_listed_renewed_and_expired(
    asked: Asked, says: Says, tmp_path: Path
) -> None:
    alice = ("--command-config", by_password(tmp_path, "alice", PASSWORD))
    file = tmp_path / "job.properties"
    code, made = asked("token create", str(file), "--renewer", "bob", "--hours", "1", *alice)
    assert (code, made["owner"], made["renewers"]) == (0, "User:alice", ["User:bob"])
    assert made["expires_ms"] - made["issued_ms"] == made["max_ms"] - made["issued_ms"] == 3_600_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with file.open("a") as settings:
        settings.write("security.protocol=SASL_PLAINTEXT\n")
    bearer = ("--command-config", str(file))
    assert says("topic", "list", *bearer)[0] == 0
    code, _, said = says("token", "list", *bearer)
    assert (code, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in said) == (1, True)
    code, found = asked("token list", *alice)
    assert [token["token"] for token in found] == [made["token"]]
    bob = ("--command-config", by_password(tmp_path, "bob", "builder"))
    code, renewed = asked("token renew", made["token"], "--hours", "0.5", *bob)
    assert (code, renewed["expires_ms"] < made["expires_ms"]) == (0, True)
    code, ended = asked("token expire", made["token"], *bob)
    assert (code, ended["expires_ms"] < renewed["expires_ms"]) == (0, True)
    assert asked("token list", *alice) == (0, [])
    assert says("topic", "list", *bearer)[0] != 0


def test_a_token_for_another_one_is_his(asked: Asked, says: Says, tmp_path: Path) -> None:
    alice = ("--command-config", by_password(tmp_path, "alice", PASSWORD))
    code, made = asked("token create", str(tmp_path / "a.properties"), "--owner", "bob", *alice)
    assert (code, made["owner"]) == (0, "User:bob")
    code, said, _ = says("token", "list", "--owner", "bob", *alice)
    assert (code, made["token"] in said) == (0, True)
    code, said, _ = says("token", "renew", made["token"], *alice)
    assert code == 1  # she had it made, and does not own it
    bob = ("--command-config", by_password(tmp_path, "bob", "builder"))
    assert says("token", "expire", made["token"], "--hours", "1", *bob)[0] == 0
    assert says("token", "expire", made["token"], *bob)[0] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("create", "here.properties"), "file exists"),
        (("create", "no/such/place"), "no such file"),
        (("create", "new.properties", "--hours", "0"), "must be more than 0"),
        (("renew", "unknown"), "there is no token unknown"),
        (("expire", "unknown"), "there is no token unknown"),
    ],
)
def test_what_cannot_be_is_said(
    says: Says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.properties").write_text("mine")
    alice = ("--command-config", by_password(tmp_path, "alice", PASSWORD))
    code, _, said = says("token", *words, *alice)
    assert code != 0
    assert why in said
    assert (tmp_path / "here.properties").read_text() == "mine"
    assert not (tmp_path / "new.properties").exists()


def test_a_token_that_is_refused_leaves_no_file(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    open_to_all = f"127.0.0.1:{broker.server.listeners[1].port}"
    code, _, said = sayer(open_to_all, capsys)("token", "create", str(tmp_path / "x"))
    assert (code, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in said) == (1, True)
    assert not (tmp_path / "x").exists()

"""Refusals for want of permission name topic or group, operation and the ACL that allows it."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says, sayer


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with BrokerThread(settings) as broker:
        broker.create_topics("orders", "other")
        yield broker


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    return sayer(broker.bootstrap, capsys)


def allow(broker: BrokerThread, *words: str) -> None:
    """Do what the advice says, as the administrator of this machine."""
    assert command([*words, "-b", f"unix:{broker.directory}"]) == 0


@pytest.mark.parametrize("describes", [False, True])
@pytest.mark.parametrize(
    ("verb", "operation", "resource", "name"),
    [
        ("produce orders lines.txt", "write", "topic", "orders"),
        ("consume orders --until-end", "read", "topic", "orders"),
        ("consume orders -g billing --timeout 1", "read", "group", "billing"),
    ],
)
def test_a_refusal_names_what_is_missing_and_the_acl_that_allows_it(
    broker: BrokerThread,
    says: Says,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    describes: bool,
    verb: str,
    operation: str,
    resource: str,
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("one\n")
    who = ["--allow-principal", "User:ANONYMOUS"]
    if describes:
        allow(broker, "acl", "create", *who, "--operation", "describe", "--topic", "orders")
    if resource == "group":
        allow(broker, "acl", "create", *who, "--operation", "read", "--topic", "orders")
    code, _, told = says(*verb.split())
    assert code == 1
    assert (
        f"has no {operation} permission on {resource} {name}; an administrator can grant it:"
        in told
    )
    advice = told.split("can grant it: headrace ")[1].split(" [")[0].replace("NAME", "ANONYMOUS")
    allow(broker, *shlex.split(advice))
    assert says(*verb.split())[0] == 0


def test_a_shipped_file_that_may_not_be_sent_names_the_topic(
    broker: BrokerThread, says: Says, tmp_path: Path
) -> None:
    file = tmp_path / "a.log"
    file.write_text("one\n")
    code, _, told = says("produce", "orders", "-F", str(file))
    assert code == 1
    assert "no write permission on topic orders; " in told
    assert told.splitlines()[-1].startswith(f"{file}: 0 lines shipped, 1 not shipped")

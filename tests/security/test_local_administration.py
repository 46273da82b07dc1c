"""Administration by the Unix socket: the first user is made there, and nobody else gets in."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.admin.users import describe_users
from headrace.client.sync import connect, run
from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.net import local
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says, sayer, send

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
SECRET = "a-secret-of-alice-55"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """One that lets nobody in by the network, for there are no users."""
    with BrokerThread(SETTINGS, directory=str(tmp_path_factory.mktemp("data"))) as running:
        yield running


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    return sayer(f"unix:{broker.directory}", capsys)


def settings_of(directory: Path, user: str) -> str:
    file = directory / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{user}" password="{SECRET}";\n'
    )
    return str(file)


def test_the_first_user_is_made_and_allowed_by_the_socket(
    broker: BrokerThread, says: Says, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = tmp_path / "password"
    password.write_text(SECRET)
    assert says("user", "create", "alice", "--password-file", str(password))[0] == 0
    assert says("topic", "create", "orders")[0] == 0
    by_network = sayer(broker.bootstrap, capsys)
    mine = ("--command-config", settings_of(tmp_path, "alice"))
    code, _, told = by_network("topic", "describe", "orders", *mine)
    assert code != 0, told
    made = says(
        "acl",
        "create",
        "--allow-principal",
        "User:alice",
        "--operation",
        "all",
        "--topic",
        "orders",
    )
    assert made[0] == 0, made
    assert by_network("topic", "describe", "orders", *mine)[0] == 0
    assert says("config", "get", "topic", "orders")[0] == 0


def test_everything_of_a_single_broker_is_reached_by_the_socket(
    broker: BrokerThread, says: Says
) -> None:
    assert says("topic", "create", "through")[0] == 0
    send(f"unix:{broker.directory}", "through", 2)
    assert says("consume", "through", "-g", "group", "--from-beginning", "-n", "2")[1] == "0\n1\n"
    assert "group" in says("group", "list")[1]
    assert "unix:/" in says("cluster", "info")[1]


def test_a_user_named_like_it_is_nobody_special(
    broker: BrokerThread, says: Says, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = tmp_path / "password"
    password.write_text(SECRET)
    assert says("user", "create", "local", "--password-file", str(password))[0] == 0
    by_network = sayer(broker.bootstrap, capsys)
    mine = ("--command-config", settings_of(tmp_path, "local"))
    code, _, told = by_network("user", "list", *mine)
    assert (code, "CLUSTER_AUTHORIZATION_FAILED" in told) == (1, True), told
    assert "-b unix:DATA" in told


def test_another_user_of_this_machine_is_closed_and_named(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "peer_of", lambda connection: local.Peer(4711, 54_321, 1))
    with socket.socket(socket.AF_UNIX) as client, caplog.at_level(logging.WARNING):
        client.settimeout(20)
        client.connect(f"{broker.directory}/admin.sock")
        assert client.recv(1) == b""
    assert (
        "refusing a connection from process 4711 of user id 54321: admin.socket is only for the"
        " broker's own user"
    ) in caplog.text
    assert len([line for line in caplog.records if "Traceback" in (line.exc_text or "")]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_the_kernel_says_who_it_is_and_nobody_is_not_let_in(
    broker: BrokerThread, says: Says
) -> None:
    path = Path(broker.directory)
    for place in (path, *path.parents):
        if place.stat().st_mode & 0o005 != 0o005:
            place.chmod(place.stat().st_mode | 0o055)
    (path / "admin.sock").chmod(0o666)
    ask = (
        "import os, socket; os.setgid(65534); os.setuid(65534); c = socket.socket(socket.AF_UNIX);"
        f"c.settimeout(20); c.connect({str(path / 'admin.sock')!r}); print(c.recv(1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "b''\n", done.stderr
    assert says("user", "list")[0] == 0
    (path / "admin.sock").chmod(0o600)


def test_who_asks_without_saying_who_he_is_is_told_of_the_socket(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, told = sayer(broker.bootstrap, capsys)("user", "list", "--request-timeout", "0.3")
    assert code == 3
    assert "--command-config FILE" in told
    assert "-b unix:DATA" in told


def test_credentials_and_tls_are_not_for_the_socket(says: Says, tmp_path: Path) -> None:
    nobody = settings_of(tmp_path, "nobody").replace("SASL_PLAINTEXT", "SASL_SSL")
    assert says("topic", "list", "--command-config", nobody)[0] == 0


def test_what_was_done_by_it_is_in_the_audit_log_as_user_local(
    broker: BrokerThread, says: Says, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        says(
            "acl", "create", "--allow-principal", "User:bob", "--operation", "read", "--topic", "t"
        )
    (line,) = (r.getMessage() for r in caplog.records if r.name.endswith("audit"))
    assert "User:local" in line
    assert "listener=local" in line
    assert any(f"user id {os.geteuid()} is User:local" in r.getMessage() for r in caplog.records)


def test_only_the_broker_that_has_the_socket_is_told_of_by_it(broker: BrokerThread) -> None:
    with connect(f"unix:{broker.directory}") as client:
        brokers = run(client.metadata([])).brokers
        assert [str(address) for address in brokers.values()] == [
            f"unix:{broker.directory}/admin.sock"
        ]
        assert run(describe_users(client)) is not None


@pytest.mark.parametrize("at", ["", "none"])
def test_it_is_beside_the_data_unless_it_is_named_or_not_wanted(at: str, tmp_path: Path) -> None:
    path = str(tmp_path / "other.sock") if at else ""
    with BrokerThread({"admin.socket": path}) as running:
        assert not os.path.exists(f"{running.directory}/admin.sock")
        assert (running.server.doors.local_path or "") == path
    assert not os.path.exists(tmp_path / "other.sock")

"""`headrace serve --secure` as a process: a locked broker, and real clients with its files."""

import json
import signal
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.cli.main import run as command
from tests.support.processes.process import HEADRACE, START_SECONDS_MAX, free_port

SECONDS = 30.0


class Locked:
    """A started one: what its start said, and its process."""

    def __init__(self, process: "subprocess.Popen[str]", facts: Mapping[str, Any]) -> None:
        self.process = process
        self.facts = facts
        self.place = Path(facts["data"]) / "headrace-secure"

    def file(self, name: str) -> str:
        return str(self.place / name)

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        """Settings as librdkafka's users read them from the file."""
        lines = (self.place / "client-librdkafka.properties").read_text().splitlines()
        pairs = (line.split("=", 1) for line in lines if not line.startswith("#"))
        settings = dict(pairs)
        return settings | {name.replace("_", "."): value for name, value in more.items()}


@contextmanager
def locked(data: Path, port: int, *words: str) -> Iterator[Locked]:
    serve = [str(HEADRACE), "serve", "--secure", "--log-format", "json"]
    with (
        (data.parent / "broker.log").open("a") as log,
        subprocess.Popen(
            [*serve, "--port", str(port), "--data", str(data), *words],
            stdout=subprocess.PIPE, stderr=log, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (data.parent / "broker.log").read_text()
            yield Locked(process, json.loads(line))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(START_SECONDS_MAX)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure") / "data"


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[Locked]:
    with locked(data, free_port()) as started:
        yield started


def test_its_start_says_where_everything_is_and_no_secret(broker: Locked) -> None:
    secure = broker.facts["secure"]
    assert secure["user"] == "admin"
    assert secure["clients"] == [
        broker.file(name)
        for name in ("client-java.properties", "client-librdkafka.properties", "client-spark.json")
    ]
    (listener,) = broker.facts["listeners"]
    assert listener.startswith("SASL_SSL://127.0.0.1:")
    password = (broker.place / "password").read_text().strip()
    assert password not in json.dumps(broker.facts)
    assert password not in (broker.place.parents[1] / "broker.log").read_text()
    with open(f"/proc/{broker.process.pid}/cmdline") as words:
        assert password not in words.read()


def test_whatever_it_writes_is_its_owners_alone(broker: Locked) -> None:
    data = broker.place.parent
    for path in (data, *data.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path


def test_librdkafka_produces_and_consumes_with_the_file(broker: Locked) -> None:
    producer = Producer(broker.librdkafka())
    values = [b"%d" % number for number in range(100)]
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(broker.librdkafka(group_id="g", auto_offset_reset="earliest"))
    try:
        consumer.subscribe(["orders"])
        found: list[bytes] = []
        until = time.monotonic() + SECONDS
        while len(found) < len(values) and time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
        assert found == values
    finally:
        consumer.close()


@pytest.mark.parametrize("name", ["client-java.properties", "client-librdkafka.properties"])
def test_our_command_produces_and_consumes_with_either_file(
    broker: Locked, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = ("--command-config", broker.file(name))
    topic = name.partition(".")[0]
    assert command(["topic", "create", topic, *mine]) == 0
    done = subprocess.run(
        [str(HEADRACE), "produce", topic, *mine],
        input="hello\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    capsys.readouterr()
    assert command(["consume", topic, "--from-beginning", "-n", "1", *mine]) == 0
    assert capsys.readouterr().out == "hello\n"


def test_the_sparks_file_says_what_javas_says(broker: Locked) -> None:
    from headrace.config.properties import parse

    java = parse((broker.place / "client-java.properties").read_text())
    spark = json.loads((broker.place / "client-spark.json").read_text())
    assert {name.removeprefix("kafka."): value for name, value in spark.items()} == java
    assert java["bootstrap.servers"] == broker.facts["bootstrap"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.password": "0" * 40},
        {"sasl.username": "alice"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "SSL"},
        {"security.protocol": "PLAINTEXT"},
    ],
    ids=str,
)
def test_nobody_else_comes_in(broker: Locked, wrong: dict[str, str]) -> None:
    settings = {**broker.librdkafka(), **wrong, "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=2)


def test_who_does_not_know_the_authority_does_not_believe_it(broker: Locked) -> None:
    host, _, port = broker.facts["bootstrap"].rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as connection,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(connection, server_hostname=host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", socket.gethostname()])
def test_the_certificate_is_for_each_name_of_this_machine(broker: Locked, host: str) -> None:
    context = ssl.create_default_context(cafile=broker.file("authority.pem"))
    port = int(broker.facts["bootstrap"].rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), 10) as connection,
        context.wrap_socket(connection, server_hostname=host) as encrypted,
    ):
        assert encrypted.version() == "TLSv1.3"


def test_a_second_start_and_one_after_a_kill_go_on_with_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port = tmp_path / "data", free_port()
    kept = ("authority.key", "authority.pem", "broker.pem", "password")
    with locked(data, port) as first:
        before = {name: (first.place / name).read_bytes() for name in kept}
        password = (first.place / "password").read_text()
        mine = ("--command-config", first.file("client-java.properties"))
        assert command(["topic", "create", "kept", *mine]) == 0
        first.process.kill()
    assert (data / "admin.sock").exists()  # left, and in nobody's way
    # As if it had been killed before it could note that the first user was made.
    (data / "headrace-secure" / "user-made").unlink()
    with locked(data, port) as second:
        assert {name: (second.place / name).read_bytes() for name in kept} == before
        assert (second.place / "user-made").exists()
        capsys.readouterr()
        assert command(["topic", "list", *mine]) == 0
        assert "kept" in capsys.readouterr().out
        local = ("-b", f"unix:{data}")
        other = tmp_path / "other"
        other.write_text("another-password-1\n")
        assert command(["user", "alter", "admin", "--password-file", str(other), *local]) == 0
    with locked(data, port) as third:
        assert command(["topic", "list", *mine]) == 3
        log = (tmp_path / "broker.log").read_text()
        assert "the password of user admin differs from that in" in log
        assert password.strip() not in log
        assert command(["user", "delete", "admin", *local]) == 0
        assert third.process.poll() is None
    with locked(data, port):
        assert "user admin was deleted" in (tmp_path / "broker.log").read_text()
        assert command(["topic", "list", *mine]) == 3


def test_one_in_the_background_is_stopped_by_the_file_it_was_started_with(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"listeners=SASL_SSL://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")

    def done(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(HEADRACE), *words], capture_output=True, text=True, timeout=60, check=False
        )

    started = done("serve", str(settings), "--secure", "--daemon")
    try:
        assert started.returncode == 0, started.stderr
        assert "locked: TLS, SCRAM and ACLs; the first user is admin" in started.stdout
        bootstrap = [
            line.partition("=")[2]
            for line in (tmp_path / "data/headrace-secure/client-librdkafka.properties")
            .read_text()
            .splitlines()
            if line.startswith("bootstrap.servers=")
        ]
        assert f"bootstrap.servers={bootstrap[0]}\n" in started.stdout
        assert not bootstrap[0].endswith(":0")
    finally:
        stopped = done("stop", str(settings))
    assert stopped.returncode == 0, stopped.stderr
    assert not (tmp_path / "data" / "admin.sock").exists()


def test_a_user_who_was_there_before_is_not_taken_over(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    with locked(data, port) as first:
        place = first.place
    (place / "user-made").unlink()
    (place / "password").write_text("not-his-password\n")
    done = subprocess.run(
        [str(HEADRACE), "serve", "--secure", "--port", str(port), "--data", str(data)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "there is a user admin already, with another password: write that into" in last
    assert "not-his-password" not in done.stderr
    assert not (data / "admin.sock").exists()

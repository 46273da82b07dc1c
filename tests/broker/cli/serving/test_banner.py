"""What is said at a start: on a terminal, in a pipe, as JSON, and not at all."""

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import __version__
from headrace.cli.broker import banner
from headrace.cli.broker.banner import Facts, _command
from headrace.cli.broker.start import plain_words
from headrace.testing.broker import BrokerThread
from tests.support.processes.process import HEADRACE, headrace

ONE = Facts(
    version="1.2",
    brokers=(7,),
    cluster_id="c",
    pid=42,
    listeners=("PLAINTEXT://127.0.0.1:9092",),
    advertised=("PLAINTEXT://127.0.0.1:9092",),
    bootstrap="127.0.0.1:9092",
    data="/data",
    data_kept=True,
    durable=True,
    metrics=None,
    own_name=None,
    tries={"Kafka": "127.0.0.1:9092"},
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(facts: Facts, form: str = "text", out: io.StringIO | None = None) -> str:
    out = io.StringIO() if out is None else out
    banner.show(facts, form, ends_by=banner.CTRL_C, out=out)
    return out.getvalue()


def test_in_a_pipe_it_is_plain_lines() -> None:
    assert said(ONE) == (
        "headrace 1.2 listens on PLAINTEXT://127.0.0.1:9092\n"
        "bootstrap.servers=127.0.0.1:9092\n"
        "advertised address: PLAINTEXT://127.0.0.1:9092\n"
        "data in: /data\n"
        "durability: acks=all waits for the disk\n"
        "process: 42\n"
        "log on: standard error\n"
        "try: echo hello | headrace produce orders && headrace consume orders --from-beginning -n 1"
        "\n"
        "Ctrl-C ends it.\n"
    )


def test_each_protocol_has_a_command_to_try(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0,ROCKETMQ://127.0.0.1:0"
    with BrokerThread({"listeners": listeners}, directory=str(tmp_path)) as broker:
        facts = broker.call(lambda server: banner.facts_of([server]))
    tried = [line for line in said(facts).splitlines() if line.startswith("try: ")]
    rocketmq = facts.listeners[2].removeprefix("ROCKETMQ://")
    assert [line.removeprefix("try: ").partition(" &&")[0] for line in tried] == [
        f"echo hello | headrace produce orders -b {broker.bootstrap}",
        f"headrace amqp user create alice -b {broker.bootstrap}",
        f"headrace mqadmin updateTopic -b {rocketmq} -t shop -r 4 -w 4",
    ]


def test_no_command_is_shown_for_a_listener_that_demands_a_signature(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
        "rocketmq.access.keys": "audit:Zk7wR1sGd5uH9mCe",
    }
    with BrokerThread(settings, directory=str(tmp_path)) as broker:
        facts = broker.call(lambda server: banner.facts_of([server]))
    assert list(facts.tries) == ["Kafka"]


def test_what_differs_from_the_usual_is_said() -> None:
    facts = ONE._replace(
        listeners=("A://0.0.0.0:1", "B://h:2"),
        advertised=("A://name:1", "B://h:2"),
        bootstrap="name:1",
        data_kept=False,
        durable=False,
        metrics="http://127.0.0.1:9404/metrics",
        own_name="name",
        pid_file="/data/pid",
        log_file="/data/log",
    )
    text = said(facts)
    assert "headrace 1.2 listens on A://0.0.0.0:1\nheadrace 1.2 listens on B://h:2\n" in text
    assert "advertised address: A://name:1, B://h:2 (name is this machine's host name; " in text
    assert "process: 42, noted in /data/pid\nlog on: /data/log\n" in text
    assert "data in: /data (deleted at exit; --data DIR keeps it)\n" in text
    assert "does not wait for the disk (log.flush.on.ack=false)" in text
    assert "metrics: http://127.0.0.1:9404/metrics\n" in text
    assert text.count(" -b name:1") == 2


def test_on_a_terminal_what_matters_is_bold_unless_colours_are_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = said(ONE, out=Terminal())
    assert "\x1b[1m127.0.0.1:9092\x1b[0m\n" in text
    monkeypatch.setenv("NO_COLOR", "1")
    bare = said(ONE, out=Terminal())
    assert "\x1b" not in bare
    assert re.sub("\x1b\\[[0-9]+m", "", text) == bare
    assert "  headrace 1.2  broker 7, pid 42\n" in bare
    assert "  clients use       127.0.0.1:9092\n" in bare
    several = said(ONE._replace(brokers=(1, 2, 3)), out=Terminal())
    assert "3 brokers, pid 42" in several


def test_as_json_it_is_one_object_with_these_names() -> None:
    (line,) = said(ONE, "json", Terminal()).splitlines()
    assert json.loads(line) == {
        "event": "started",
        "version": "1.2",
        "brokers": [7],
        "cluster_id": "c",
        "pid": 42,
        "listeners": ["PLAINTEXT://127.0.0.1:9092"],
        "advertised": ["PLAINTEXT://127.0.0.1:9092"],
        "bootstrap": "127.0.0.1:9092",
        "data": "/data",
        "data_kept": True,
        "durable": True,
        "metrics": None,
        "own_name": None,
        "pid_file": None,
        "log_file": None,
        "admin_socket": None,
        "secure": None,
    }


def test_a_locked_broker_says_where_what_its_clients_take_is() -> None:
    secure = {
        "user": "admin",
        "authority": "/data/a.pem",
        "certificate_until": "2031-01-02",
        "clients": ["/data/java.properties", "/data/spark.json"],
    }
    facts = ONE._replace(secure=secure, admin_socket="/data/admin.sock")
    text = said(facts)
    assert (
        "administration: -b unix:/data/admin.sock\n"
        "locked: TLS, SCRAM and ACLs; the first user is admin, a super user\n"
        "certificate: until 2031-01-02, signed by /data/a.pem\n"
        "for clients: /data/java.properties\n"
        "for clients: /data/spark.json\n"
        "try: echo hello | headrace produce orders --command-config /data/java.properties && "
    ) in text
    assert json.loads(said(facts, "json"))["secure"] == secure
    without = said(facts._replace(secure={**secure, "clients": []}))
    assert "--command-config" not in without


def test_the_facts_are_the_brokers_own(tmp_path: Path) -> None:
    settings = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
        "advertised.listeners": "B://outside:77",
        "log.flush.on.ack": "false",
        "metrics.listener": "127.0.0.1:0",
    }
    with BrokerThread(settings, directory=str(tmp_path)) as broker:
        facts = broker.call(lambda server: banner.facts_of([server]))
        http = broker.call(lambda server: server.http)
        assert http is not None
        port = http.address[1]
    assert facts.version == __version__
    assert facts.pid == os.getpid()
    assert facts.bootstrap == broker_address(facts, "A")
    assert facts.advertised == (f"A://{facts.bootstrap}", "B://outside:77")
    assert (facts.data, facts.data_kept, facts.durable) == (str(tmp_path), True, False)
    assert facts.metrics == f"http://127.0.0.1:{port}/metrics"


def broker_address(facts: Facts, name: str) -> str:
    (address,) = [one for one in facts.listeners if one.startswith(f"{name}://")]
    assert not address.endswith(":0")
    return address.removeprefix(f"{name}://")


def test_plain_words_know_quiet_and_the_logs_form() -> None:
    found = plain_words(["serve", "-q", "--data", "d", "--log-format", "json"])
    assert found is not None
    assert (found.quiet, found.flags) == (True, {"log.dirs": "d", "log.format": "json"})
    assert plain_words(["serve"]) == (None, {}, False, False)


# --- of processes ---------------------------------------------------------------------------------


@contextmanager
def running(*words: str, out: Any = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    """A command that runs until the end of the block."""
    with subprocess.Popen(
        [str(HEADRACE), *words], stdout=out, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)


@pytest.mark.parametrize("words", [("serve", "--listeners", "PLAINTEXT://127.0.0.1:0"),
                                   ("dev", "--brokers", "2", "--port", "0")])  # fmt: skip
def test_with_json_logs_standard_output_is_one_object_and_its_bootstrap_works(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    data = tmp_path / "data"
    with running(*words, "--data", str(data), "--log-format", "json") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["pid"] == process.pid
        assert told["data"] == str(data)
        kafka = [listener for listener in told["listeners"] if listener.startswith("PLAINTEXT")]
        assert len(kafka) == len(told["brokers"]) == told["bootstrap"].count(":")
        assert headrace(told["bootstrap"], "topic", "create", "t") == "created t\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert out == ""
    lines = [json.loads(line) for line in errors.splitlines()]
    if words[0] == "serve":
        assert [line["message"] for line in lines][-1] == "stopped"
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_quiet_says_nothing(tmp_path: Path) -> None:
    words = ["serve", "--listeners", "PLAINTEXT://127.0.0.1:0", "--data", str(tmp_path), "--quiet"]
    with running(*words) as process:
        assert process.stderr is not None
        while not (tmp_path / "headrace.pid").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert out == ""


def test_on_a_terminal_a_start_shows_the_banner(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        words = ["serve", "--listeners", "PLAINTEXT://127.0.0.1:0", "--data", str(tmp_path)]
        with running(*words, out=theirs) as process:
            shown = b""
            while b"Ctrl-C" not in shown:
                assert process.poll() is None
                if select.select([ours], [], [], 1)[0]:
                    shown += os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"pid {os.getpid()}".encode() not in shown
    assert b"clients use" in shown
    assert str(tmp_path).encode() in shown


@pytest.mark.parametrize(("called", "path", "command"), [
    ("/usr/bin/headrace", "/bin:/usr/bin", "headrace"),
    (".venv/bin/headrace", "/bin:/usr/bin", ".venv/bin/headrace"),
    ("/home/me/.venv/bin/headrace", "/bin", "/home/me/.venv/bin/headrace"),
    ("/src/headrace/__main__.py", "/bin", "headrace"),
    ("headrace", "/bin", "headrace"),
])  # fmt: skip
def test_the_line_to_paste_names_the_command_as_a_shell_finds_it(
    called: str, path: str, command: str
) -> None:
    assert _command(called, path) == command

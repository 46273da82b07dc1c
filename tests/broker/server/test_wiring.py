"""Start, stop, restart, and what a start or a running broker does when something is wrong."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.model.errors import ConfigError
from headrace.server.assembly import Server
from headrace.testing import BrokerThread


def produce(bootstrap: str, topic: str, count: int, **config: str) -> list[KafkaError]:
    """Produce and flush; the errors of what was not acknowledged."""
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": "8000", **config})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, on_delivery=lambda e, _: errors.append(e) if e else None
        )
    producer.flush(20)
    return errors


def test_a_second_broker_on_the_same_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    with BrokerThread(directory=str(tmp_path)):
        second = BrokerThread(directory=str(tmp_path))
        with pytest.raises(ConfigError, match=r"in use by another") as refusal:
            second.start()
        assert "\n" not in str(refusal.value)


def test_a_taken_port_is_said_in_one_line_and_nothing_stays_locked(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with pytest.raises(ConfigError, match=rf"listeners=.*:{port}: .*in use"):
            BrokerThread(config, directory=str(tmp_path)).start()
    with BrokerThread(directory=str(tmp_path)) as again:
        assert produce(again.bootstrap, "t", 1) == []


def test_a_taken_port_for_metrics_is_said_with_its_key(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refusal:
            BrokerThread({"metrics.listener": f"127.0.0.1:{port}"}, directory=str(tmp_path)).start()
    assert str(refusal.value) == f"metrics.listener=127.0.0.1:{port}: address already in use"


def _directories(where: Path) -> dict[str, tuple[str, str]]:
    """Values of log.dirs that cannot be, by what is wrong: the value and what is said of it."""
    file = where / "file"
    file.touch()
    (where / "store" / "headrace-metadata.db").mkdir(parents=True)
    for name in ("one", "two"):
        with BrokerThread(directory=str(where / name)):
            pass
    (where / "link").symlink_to(where / "one")
    one, two, link = (where / name for name in ("one", "two", "link"))
    return {
        "a file": (f"{file}", f"log.dirs={file}: not a directory"),
        "below a file": (f"{file}/x", f"log.dirs={file}/x: not a directory"),
        "under two names": (f"{one},{link}", f"log.dirs={link}: the same directory as {one}"),
        "of two clusters": (f"{one},{two}", f"log.dirs={two}: meta.properties says it belongs"),
        "no store": (f"{where}/store", f"metadata store {where}/store/headrace-metadata.db: "),
    }


def test_log_directories_that_cannot_be_used_are_one_line_with_key_value_and_reason(
    tmp_path: Path,
) -> None:
    for wrong, (value, expected) in _directories(tmp_path).items():
        with pytest.raises(ConfigError) as refusal:
            BrokerThread({"log.dirs": value}, directory=str(tmp_path / "unused")).start()
        assert str(refusal.value).startswith(expected), wrong
        assert "\n" not in str(refusal.value), wrong


def test_several_listeners_tell_each_client_its_own_address() -> None:
    config = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "OUTSIDE://localhost:0",
    }
    with BrokerThread(config) as broker:
        endpoints = broker.call(lambda server: server.endpoints())
        ports = [one.port for one in broker.server.listeners]
        assert [(one.listener, one.host, one.port) for one in endpoints] == [
            ("INSIDE", "127.0.0.1", ports[0]),
            ("OUTSIDE", "localhost", ports[1]),
        ]
        assert produce(f"127.0.0.1:{ports[1]}", "t", 3) == []


def _fill_disk(server: Server, topic: str) -> None:
    """Let every further write to the topic's log find the disk full."""
    file = server.broker.partition(topic, 0).log.segments[-1].file
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, file.fileno())
    os.close(full)


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_full_disk_fences_and_acknowledges_nothing(acks: str) -> None:
    with BrokerThread() as broker:
        assert produce(broker.bootstrap, "t", 5, acks=acks) == []
        broker.call(lambda server: _fill_disk(server, "t"))
        errors = produce(broker.bootstrap, "t", 5, **{"acks": acks, "message.timeout.ms": "2500"})
        assert len(errors) == 5
        assert broker.call(lambda server: server.directories[0].fenced)


def test_a_start_that_keeps_early_clients_waiting_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread():
        assert "came early" not in caplog.text
    monkeypatch.setattr("headrace.server.assembly.EARLY_SECONDS_MAX", 0.0)
    with BrokerThread():
        assert "clients that connected early waited" in caplog.text


def test_sigterm_stops_cleanly_and_the_next_start_finds_it_so(tmp_path: Path) -> None:
    program = (
        "import sys; from headrace.config.broker import load; from headrace.server.main import "
        "serve; sys.exit(serve(load(flags={'listeners': 'PLAINTEXT://127.0.0.1:0', 'log.dirs': "
        f"{str(tmp_path)!r}}})[0]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "listens on PLAINTEXT://127.0.0.1:" in said
        address = said.split("//")[1].strip()
        assert produce(address, "t", 100, acks="all") == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with BrokerThread(directory=str(tmp_path)) as again:
        end = again.call(lambda server: server.broker.partition("t", 0).high_watermark)
        assert end == 100


def _checkpoint_slowly(server: Server) -> None:
    """Begin to write the checkpoints on a disk that takes its time, the first time."""
    disk, replace = server.disk, server.disk.replace
    pauses = [0.6]

    def slowly(path: str, content: bytes) -> None:
        if pauses:
            time.sleep(pauses.pop())
        replace(path, content)

    disk.replace = slowly  # type: ignore[method-assign]
    server.directories[0].checkpoint()


def test_a_stop_waits_for_checkpoints_under_way_and_writes_its_own_after_them(
    tmp_path: Path,
) -> None:
    with BrokerThread(directory=str(tmp_path)) as broker:
        assert produce(broker.bootstrap, "t", 3) == []
        broker.call(_checkpoint_slowly)
        assert produce(broker.bootstrap, "t", 4) == []
    lines = (tmp_path / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert "t 0 7" in lines
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_a_start_imports_no_library_nor_room_that_only_some_requests_need() -> None:
    program = (
        "import sys, headrace.server.main; "
        "sys.exit([m for m in sys.modules if m.split('.')[0] in {'kio', 'rich', 'cyclopts', 'lz4',"
        " 'zstandard', 'cramjam', 'prometheus_client', 'numpy', 'pyarrow'} or m.startswith(("
        " 'headrace.coordination.groups', 'headrace.coordination.share',"
        " 'headrace.coordination.transactions',"
        " 'headrace.frontends.http', 'headrace.frontends.kafka.groups.find_coordinator',"
        " 'headrace.wire.kafka.coordinator_records'))] or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_start_makes_no_frozen_dataclass_but_those_that_must_be_one() -> None:
    """Each compiles source when it is imported, and takes several times what a named tuple does."""
    program = (
        "import sys, headrace.cli.main, headrace.server.main\n"
        "print(*sorted({kind.__qualname__ for name, module in list(sys.modules.items())"
        " if name.startswith('headrace.') for kind in vars(module).values()"
        " if isinstance(kind, type) and kind.__module__.startswith('headrace.')"
        " and (made := getattr(kind, '__dataclass_params__', None)) and made.frozen}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    of_settings = {"Definition", "LogConfig"}  # their fields are asked for
    read_often = {"PartitionInfo", "TopicInfo"}  # an attribute of a slot is read faster
    of_one_shape = {"Delete", "Follow"}  # as tuples: equal to Check, Lead
    assert set(done.stdout.split()) == of_settings | read_often | of_one_shape


def test_many_quiet_connections_cost_little_memory() -> None:
    with BrokerThread({"connection.first.request.ms": "60000"}) as broker:
        before = _rss()
        links = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(500)]
        deadline = time.monotonic() + 10
        while broker.call(lambda server: len(server.table)) < 500:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert _rss() - before < 500 * 40_000
        for link in links:
            link.close()


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""The command as processes: shipping a growing file, background, stopping, golden files."""

import gzip
import json
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.process import HEADRACE, BrokerProcess

GOLDEN = Path(__file__).parents[2] / "golden"
WAIT_SECONDS_MAX = 60.0


def command(*words: str, code: int = 0) -> str:
    """Run it to its end; returns what it answered."""
    done = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


class Shipper:
    """`headrace produce --follow` that can be killed and started again."""

    def __init__(self, broker: BrokerProcess, topic: str, file: Path) -> None:
        self.words = ["produce", topic, "--follow", str(file), "-b", broker.bootstrap]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([str(HEADRACE), *self.words], stderr=subprocess.PIPE)

    def end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        process.communicate(timeout=WAIT_SECONDS_MAX)
        return process.returncode


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as one:
        yield one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "access.log"


@pytest.fixture
def shipper(broker: BrokerProcess, log: Path) -> Iterator[Shipper]:
    one = Shipper(broker, "shipped", log)
    yield one
    one.end(signal.SIGKILL)


def shipped(broker: BrokerProcess) -> list[str]:
    """All records of the topic in their order."""
    return command("consume", "shipped", "-b", broker.bootstrap, "-o", "start", "-e").splitlines()


def wait_for(broker: BrokerProcess, wanted: set[str]) -> list[str]:
    """The topic's records once all of `wanted` are there."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    found: list[str] = []
    while time.monotonic() < deadline:
        if "shipped" in command("topic", "list", "-b", broker.bootstrap):
            found = shipped(broker)
            if wanted <= set(found):
                return found
        time.sleep(0.2)
    raise AssertionError(f"missing {sorted(wanted - set(found))[:5]} of {len(wanted)}")


def write(log: Path, lines: list[str]) -> None:
    with log.open("a") as file:
        file.writelines(line + "\n" for line in lines)


def test_nothing_is_lost_through_rotations_and_kills(
    broker: BrokerProcess, log: Path, shipper: Shipper
) -> None:
    written: list[str] = []
    for turn in range(6):
        lines = [f"{turn}-{number}" for number in range(2000)]
        written += lines
        shipper.start()
        for at in range(0, len(lines), 200):
            write(log, lines[at : at + 200])
            time.sleep(0.02)
        time.sleep(0.6)
        # Killed at some moment; rotated before, while and after nobody ships.
        shipper.end(signal.SIGKILL)
        if turn % 2:
            for number in range(turn, 0, -1):
                older = log.with_name(f"access.log.{number}")
                if older.exists():
                    older.rename(log.with_name(f"access.log.{number + 1}"))
            log.rename(log.with_name("access.log.1"))
            log.touch()
    shipper.start()
    found = wait_for(broker, set(written))
    # At least once, and each line's first time in order.
    assert list(dict.fromkeys(found)) == written
    assert shipper.end(signal.SIGTERM) == 0
    shipper.start()
    time.sleep(1.5)
    shipper.end(signal.SIGTERM)
    assert shipped(broker) == found


def test_a_clean_restart_repeats_nothing(
    broker: BrokerProcess, log: Path, shipper: Shipper
) -> None:
    write(log, ["one", "two"])
    shipper.start()
    wait_for(broker, {"one", "two"})
    assert shipper.end(signal.SIGTERM) == 0
    write(log, ["three"])
    shipper.start()
    assert wait_for(broker, {"three"}) == ["one", "two", "three"]


def test_copy_and_truncate_is_followed(broker: BrokerProcess, log: Path, shipper: Shipper) -> None:
    write(log, ["one"])
    shipper.start()
    wait_for(broker, {"one"})
    write(log, ["two"])
    wait_for(broker, {"two"})
    shutil.copy(log, log.with_name("access.log.1"))
    with log.open("r+") as file:
        file.truncate(0)
    write(log, ["three"])
    assert wait_for(broker, {"three"}) == ["one", "two", "three"]


def test_a_broker_that_goes_away_is_waited_for(
    broker: BrokerProcess, log: Path, shipper: Shipper
) -> None:
    written = [f"a{number}" for number in range(500)]
    write(log, written)
    shipper.start()
    wait_for(broker, set(written))
    broker.kill()
    more = [f"b{number}" for number in range(500)]
    write(log, more)
    time.sleep(1.0)
    broker.start()
    assert wait_for(broker, set(more)) == written + more


def test_two_do_not_ship_the_same_file(broker: BrokerProcess, log: Path, shipper: Shipper) -> None:
    write(log, ["one"])
    shipper.start()
    wait_for(broker, {"one"})
    second = Shipper(broker, "shipped", log)
    second.start()
    assert second.process is not None
    _, said = second.process.communicate(timeout=WAIT_SECONDS_MAX)
    assert second.process.returncode == 1
    assert b"another process" in said


def test_a_broker_goes_to_the_background_and_is_stopped(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    words = ["serve", "--data", data, "--listeners", "PLAINTEXT://127.0.0.1:0"]
    said = command(*words, "--daemon")
    assert "listens on PLAINTEXT://127.0.0.1:" in said
    assert f"headrace stop --pid-file {data}/headrace.pid ends it." in said
    (bootstrap,) = re.findall("^bootstrap.servers=(.*)$", said, re.MULTILINE)
    try:
        assert command("topic", "create", "t", "-b", bootstrap) == "created t\n"
        again = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, check=False)
        assert again.returncode != 0
        assert len(again.stderr.strip().splitlines()) == 1, again.stderr
        assert data in again.stderr
    finally:
        assert "stopped" in command("stop", "--data", data)
    command("stop", "--data", data, code=4)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_background_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        words = ["serve", "--data", str(tmp_path / "d"), "--listeners", where, "--daemon"]
        done = subprocess.run([str(HEADRACE), *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert where in done.stdout


@pytest.mark.parametrize("name", ["kafka-3.9.2-clean", "kafka-4.3.1-clean"])
def test_dump_of_golden_segments_agrees_with_what_a_client_read(name: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{name}.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    with gzip.open(GOLDEN / f"{name}.expected.json.gz", "rt") as file:
        expected = json.load(file)["read_uncommitted"]
    for partition in ("g-plain-0", "g-zstd-0", "g-headers-0", "g-txn-0", "g-appendtime-0"):
        (directory,) = tmp_path.rglob(partition)
        files = [str(one) for one in sorted(directory.glob("*.log"))]
        out = command("log", "dump", *files, "--records", "--json")
        rows = [json.loads(line) for line in out.splitlines()]
        start = expected[partition][0][0]
        found, control, append_time = [], False, False
        for row in rows:
            if "base_offset" in row:
                control = row["control"]
                append_time = row["timestamp_type"] == "LogAppendTime"
            elif not control and row["offset"] >= start:
                found.append([row["offset"], 2 if append_time else 1, row["timestamp"]])
        assert found == [one[:3] for one in expected[partition]], partition


@pytest.mark.parametrize(
    "archive", ["kafka-3.9.0-zk-logdir", "kafka-3.9.2-clean", "kafka-4.3.1-clean"]
)
def test_every_file_of_a_real_kafka_can_be_dumped(archive: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{archive}.tgz") as file:
        file.extractall(tmp_path, filter="data")
    files = sorted(str(one) for one in tmp_path.rglob("*") if one.is_file())
    out = command("log", "dump", *files)
    assert all(f"{one} (" in out for one in files)

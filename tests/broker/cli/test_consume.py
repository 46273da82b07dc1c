"""`headrace consume` where things go wrong: damage, a broker that restarts, places nobody has."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.record import batch as batches
from headrace.testing import BrokerThread
from tests.support.processes.process import free_port

WAIT_SECONDS_MAX = 60.0
LIBRDKAFKA_LOG = re.compile(r"%\d\|\d+\.\d+\|")


def send(bootstrap: str, *values: bytes, batches_apart: bool = True) -> None:
    """Produce records to partition 0 of t, each in a batch of its own."""
    with connect(bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for value in values:
                await producer.send("t", value, timestamp=1, partition=0)
                if batches_apart:
                    await producer.flush()
            await producer.flush()

        run(story())


def segment(broker: BrokerThread) -> Path:
    return Path(broker.directory) / "t-0" / f"{0:020}.log"


def damage(broker: BrokerThread, value: bytes) -> None:
    """Turn one bit of a record's value over, in the file."""
    path = segment(broker)
    data = bytearray(path.read_bytes())
    data[data.index(value)] ^= 1
    path.write_bytes(data)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        yield started


def consumed(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[str], str]:
    """Return the exit code of a `consume t`, its lines on stdout, and its stderr.

    librdkafka writes its log to stderr, too: a producer of an earlier test may still look for its
    broker.
    """
    code = command(["consume", "t", "-b", broker.bootstrap, "--request-timeout", "20", *words])
    printed = capfd.readouterr()
    errors = [line for line in printed.err.splitlines(True) if not LIBRDKAFKA_LOG.match(line)]
    return code, printed.out.splitlines(), "".join(errors)


def test_damaged_records_end_consume_with_their_place_and_the_way_on(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    send(broker.bootstrap, b"one", b"two", b"three")
    damage(broker, b"two")
    began = time.monotonic()
    code, lines, said = consumed(broker, capfd, "--from-beginning", "-e")
    assert (code, lines) == (1, ["one"])
    last = said.splitlines()[-1]
    for word in ("t-0", "offset 1 ", str(segment(broker)), "restore", "--skip-damaged"):
        assert word in last
    assert time.monotonic() - began < 15, "what is damaged stays so: nobody waits for it"
    fetch = broker.call(lambda server: server.metrics.api(1))
    assert fetch.errors.get(56, 0) >= 1, "counted by error, as headrace_errors_total has it"
    assert fetch.requests < 50


def test_damaged_records_are_passed_over_where_that_is_asked_and_said_by_their_offsets(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    send(broker.bootstrap, b"one", b"two", b"three", b"four", b"five")
    damage(broker, b"two")
    damage(broker, b"four")
    code, lines, said = consumed(broker, capfd, "--from-beginning", "-e", "--skip-damaged")
    assert (code, lines) == (0, ["one", "three", "five"])
    assert "t-0: skipped offsets 1 to 1, " in said
    assert "t-0: skipped offsets 3 to 3, " in said


def test_a_partition_that_is_damaged_to_its_end_is_read_on_from_there(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    send(broker.bootstrap, *(b"value %d" % at for at in range(1200)), batches_apart=False)
    damage(broker, b"value 7")
    code, lines, said = consumed(broker, capfd, "--from-beginning", "-e", "--skip-damaged")
    assert (code, lines) == (0, [])
    assert "t-0: skipped offsets 0 to 1199, " in said


def test_bytes_that_arrive_damaged_are_told_as_those_that_lie_so(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.bootstrap, b"one", b"two", b"three")
    sound = batches.crc_ok

    def wrong(view: batches.Bytes, header: batches.BatchHeader) -> bool:
        return header.base_offset != 1 and sound(view, header)

    monkeypatch.setattr("headrace.client.consumer.consumer.batches.crc_ok", wrong)
    code, lines, said = consumed(broker, capfd, "--from-beginning", "-e")
    assert (code, lines) == (1, ["one"])
    assert "t-0: the records at offset 1 are damaged" in said
    code, lines, said = consumed(broker, capfd, "--from-beginning", "-e", "--skip-damaged")
    assert (code, lines) == (0, ["one", "three"])


@pytest.mark.parametrize("group", [(), ("-g", "readers")])
def test_consume_rides_through_a_restart_of_its_broker(
    group: tuple[str, ...], tmp_path: Path
) -> None:
    config = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with BrokerThread(config, directory=str(tmp_path)) as broker:
        bootstrap = broker.bootstrap
        send(bootstrap, b"one")
        words = [
            "consume",
            "t",
            "-b",
            bootstrap,
            "--from-beginning",
            "-n",
            "2",
            "-f",
            "%v\\n",
            *group,
        ]
        reading = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert reading.stdout is not None
            assert reading.stdout.readline() == "one\n"
        except BaseException:
            reading.kill()
            raise
    try:
        time.sleep(0.5)
        assert reading.poll() is None, "it waits for the broker"
        with BrokerThread(config, directory=str(tmp_path)) as broker:
            send(bootstrap, b"two")
            out, err = reading.communicate(timeout=WAIT_SECONDS_MAX)
    finally:
        reading.kill()
        reading.wait()
    assert (reading.returncode, out) == (0, "two\n")
    assert "retrying until it answers" in err.splitlines()[0]
    assert err.splitlines()[-1] == "the brokers answer again"


def test_consume_that_is_to_end_does_not_wait_for_a_broker_for_ever() -> None:
    with BrokerThread() as broker:
        send(broker.bootstrap, b"one")
        words = ["consume", "t", "-b", broker.bootstrap, "--from-beginning", "--timeout", "3"]
        reading = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert reading.stdout is not None
        assert reading.stdout.readline() == "one\n"
    _, err = reading.communicate(timeout=WAIT_SECONDS_MAX)
    assert reading.returncode == 3
    assert "retrying for 3 s" in err


def test_ctrl_c_ends_a_member_at_once_while_its_broker_is_gone() -> None:
    with BrokerThread() as broker:
        send(broker.bootstrap, b"one")
        words = ["consume", "t", "-b", broker.bootstrap, "--from-beginning", "-g", "readers"]
        reading = subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert reading.stdout is not None
        assert reading.stdout.readline() == "one\n"
    assert reading.stderr is not None
    assert "retrying" in reading.stderr.readline()
    began = time.monotonic()
    reading.send_signal(signal.SIGINT)
    _, err = reading.communicate(timeout=WAIT_SECONDS_MAX)
    assert time.monotonic() - began < 20
    assert "Traceback" not in err


def test_a_place_that_a_partition_does_not_have_is_said(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str]
) -> None:
    send(broker.bootstrap, b"one", b"two")
    code, lines, said = consumed(broker, capfd, "-o", "500", "-e")
    assert (code, lines) == (0, [])
    assert said == "t-0: offset 500 does not exist, the log has 0 to 2: starting at 2\n"
    assert consumed(broker, capfd, "-o", "-5", "-e") == (0, ["one", "two"], "")
    said = consumed(broker, capfd, "-o", "@2099-01-01", "-e")[2]
    assert said == "t-0: no record is at or after that time: starting at the end offset, 2\n"
    command(["group", "seek", "g", "--to", "100", "--topics", "t", "-b", broker.bootstrap])
    assert (
        "t-0: offset 100 does not exist, the log has 0 to 2: starting at 2\n"
        in capfd.readouterr().err
    )


def test_a_chunk_is_one_write_however_python_buffers(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.bootstrap, *(b"%d" % at for at in range(1000)), batches_apart=False)

    class Pipe(RawIOBase):
        """Takes what it likes of a write, as a pipe does."""

        def __init__(self) -> None:
            self.taken: list[bytes] = []

        def write(self, data: Any) -> int:
            self.taken.append(bytes(data[:1500]))
            return len(self.taken[-1])

    pipe = Pipe()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=pipe, flush=lambda: None))
    assert command(["consume", "t", "-b", broker.bootstrap, "--from-beginning", "-e"]) == 0
    assert b"".join(pipe.taken) == b"".join(b"%d\n" % at for at in range(1000))
    assert len(pipe.taken) <= 3
    pipe.taken.clear()
    assert command(["consume", "t", "-b", broker.bootstrap, "-o", "start", "-n", "7"]) == 0
    assert b"".join(pipe.taken) == b"".join(b"%d\n" % at for at in range(7))

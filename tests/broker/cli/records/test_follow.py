"""Shipping a growing file: where it goes on, when the place is noted, and what ends it."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.records import follow
from headrace.cli.records.follow import Shipper, ship
from headrace.cli.records.sending import Records, Sender
from headrace.client.transport.blocking import BlockingTransport
from headrace.client.transport.port import ConnectionLost
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.growing_file import Mark
from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import EXIT_FAILED, EXIT_UNREACHABLE, CommandError
from headrace.testing import BrokerThread


class Place:
    """A file, where its place is noted, and a broker."""

    def __init__(self, directory: Path, broker: BrokerThread) -> None:
        self.broker = broker
        self.file = directory / "access.log"
        self.state = directory / "access.log.t.headrace"
        self.cluster = BrokerOptions(bootstrap=broker.bootstrap)

    def write(self, text: str) -> None:
        with self.file.open("a") as file:
            file.write(text)

    def shipper(self, *, from_end: bool = False) -> Shipper:
        return Shipper(self.cluster, "t", self.file, self.state, Records(), from_end=from_end)

    def stored(self) -> list[str]:
        """The values in the topic."""
        return [(record.value or b"").decode() for record in self.broker.records("t")]

    def noted(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.state.read_text())
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with BrokerThread() as broker:
        yield Place(tmp_path, broker)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Have what is done in the pauses of a shipper, one after another; then it is stopped."""

    def begin(shipper: Shipper, *steps: Callable[[], object]) -> list[float]:
        left, slept = list(steps), []
        own, pause = threading.get_ident(), time.sleep

        def sleep(seconds: float) -> None:
            if threading.get_ident() != own:  # time's function is everybody's, not the module's
                return pause(seconds)
            slept.append(seconds)
            if left:
                left.pop(0)()
            else:
                shipper.stop()
            return None

        monkeypatch.setattr("headrace.cli.records.follow.time.sleep", sleep)
        return slept

    return begin


Turns = Callable[..., list[float]]


def test_what_is_added_is_sent_and_the_place_behind_it_is_noted(place: Place, turns: Turns) -> None:
    place.write("one\n")
    shipper = place.shipper()
    slept = turns(shipper, lambda: place.write("two\nthr"), lambda: place.write("ee\n"))
    shipper.run()
    assert place.stored() == ["one", "two", "three"]
    status = place.file.stat()
    noted = place.noted()
    assert (noted["version"], noted["position"]) == (1, 14)
    assert (noted["device"], noted["inode"]) == (status.st_dev, status.st_ino)
    assert slept == [follow.POLL_SECONDS] * 3
    assert shipper._client.retry_seconds == 0.0, "a stopping shipper waits for no broker"


def test_a_new_start_goes_on_behind_what_was_acknowledged(place: Place, turns: Turns) -> None:
    place.write("one\ntwo\n")
    first = place.shipper()
    turns(first)
    first.run()
    place.write("three\n")
    second = place.shipper()
    turns(second)
    second.run()
    assert place.stored() == ["one", "two", "three"]


def test_the_end_of_the_file_is_where_a_first_start_may_begin(place: Place, turns: Turns) -> None:
    place.write("old\n")
    shipper = place.shipper(from_end=True)
    turns(shipper, lambda: place.write("new\n"))
    shipper.run()
    assert place.stored() == ["new"]


def test_which_file_was_begun_is_noted_before_anything_is_sent(place: Place) -> None:
    place.write("one\n")
    shipper = place.shipper()
    assert not place.state.exists()
    shipper._turn()
    assert place.noted()["position"] == 0
    assert shipper._unsaved == 4
    place.state.unlink()
    place.write("two\n")
    shipper._turn()
    assert not place.state.exists(), "the file is known, and 8 bytes are too few to be noted"
    shipper._save()
    assert (place.noted()["position"], shipper.shipped, shipper.unacknowledged) == (8, 2, 0)
    assert shipper._unsaved == 0
    shipper._tail.close()
    shipper._client.close()


@pytest.mark.parametrize(("bytes_max", "noted"), [(8, 8), (9, 0)])
def test_the_place_is_noted_after_so_many_bytes_with_the_ends_of_their_lines(
    place: Place, monkeypatch: pytest.MonkeyPatch, bytes_max: int, noted: int
) -> None:
    assert follow.SAVE_BYTES == 4 << 20
    monkeypatch.setattr(follow, "SAVE_BYTES", bytes_max)
    place.write("one\ntwo\n")
    shipper = place.shipper()
    shipper._turn()
    assert place.noted()["position"] == noted
    shipper._client.close()
    shipper._tail.close()


def test_a_place_that_is_noted_already_is_not_written_again(place: Place, turns: Turns) -> None:
    place.write("one\n")
    shipper = place.shipper()
    turns(shipper, lambda: None, place.state.unlink)
    shipper.run()
    assert not place.state.exists()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_broker_that_forgot_the_producer_gets_everything_since_the_note_from_a_new_one(
    place: Place,
    turns: Turns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: ErrorCode,
) -> None:
    place.write("one\n")
    shipper = place.shipper()
    before = shipper._producer
    turns(shipper)

    async def forgotten(*_: object, **__: object) -> None:
        raise ApiError(code)

    monkeypatch.setattr(before, "send_encoded", forgotten)
    shipper.run()
    assert place.stored() == ["one"]
    assert shipper._producer is not before
    assert (shipper._producer.acks, shipper._producer.compression) == (
        before.acks,
        before.compression,
    )
    assert f"no longer knows this producer id ({code.name}); retrying" in capsys.readouterr().err


def test_another_error_of_the_broker_ends_the_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("one\n")
    shipper = place.shipper()

    async def refused() -> None:
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr(shipper._producer, "dispatch", refused)
    with pytest.raises(ApiError) as raised:
        shipper.run()
    assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert shipper._tail.mark() is None, "the file is closed"


@pytest.mark.parametrize("stopping", [False, True])
def test_a_lost_broker_ends_the_work_with_an_error_unless_it_was_to_end(
    place: Place, monkeypatch: pytest.MonkeyPatch, stopping: bool
) -> None:
    place.write("one\n")
    shipper = place.shipper()

    async def lost() -> None:
        if stopping:
            shipper.stop()
        raise ConnectionLost("lost")

    monkeypatch.setattr(shipper._producer, "dispatch", lost)
    monkeypatch.setattr(shipper._producer, "flush", lost)
    if stopping:
        shipper.run()
    else:
        with pytest.raises(ConnectionLost):
            shipper.run()
    assert place.noted()["position"] == 0


def test_a_note_is_read_back(tmp_path: Path) -> None:
    noted = Mark(1, 2, 3, 4, "five")
    follow._store(tmp_path / "n", noted)
    assert follow._load(tmp_path / "n") == noted
    assert follow._load(tmp_path / "none") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}', "\x00"])
def test_a_damaged_note_is_said_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "n").write_text(text)
    with pytest.raises(CommandError, match="remove it to ship the file from its beginning") as told:
        follow._load(tmp_path / "n")
    assert told.value.code == EXIT_FAILED


def test_a_file_is_shipped_by_one_process_and_till_a_signal_comes(
    place: Place, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Shipper] = []
    refused: list[str] = []
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def again() -> None:
        with pytest.raises(CommandError) as told:
            ship(place.cluster, "t", place.file, None, Records(), from_end=False)
        refused.append(str(told.value))

    def run(shipper: Shipper) -> None:
        made.append(shipper)
        turns(shipper, again, lambda: signal.raise_signal(signal.SIGTERM))
        usual(shipper)

    usual = Shipper.run
    monkeypatch.setattr(Shipper, "run", run)
    place.write("one\n")
    ship(place.cluster, "t", place.file, None, Records(), from_end=False)
    assert refused == [f"{place.state}: another process is using this position"]
    assert place.stored() == ["one"]
    assert made[0].stopping
    assert place.noted()["position"] == 4
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_second_signal_ends_the_work_at_once(place: Place) -> None:
    shipper = place.shipper()
    with follow._stopped_by_signals(shipper):
        signal.raise_signal(signal.SIGINT)
        assert shipper.stopping
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    shipper._client.close()


def test_a_file_that_is_not_there_yet_is_waited_for_and_that_is_said_once(
    place: Place, turns: Turns, capsys: pytest.CaptureFixture[str]
) -> None:
    place.file.unlink(missing_ok=True)
    shipper = place.shipper()
    turns(shipper, lambda: None, lambda: place.write("one\n"), lambda: None)
    shipper.run()
    said = capsys.readouterr().err
    assert said.count(f"{place.file}: does not exist yet; waiting for it\n") == 1
    assert place.stored() == ["one"]


def test_unsent_lines_keep_the_position_at_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    file, state = tmp_path / "a.log", tmp_path / "state"
    file.write_text("one\ntwo\n")
    sleep = BlockingTransport.sleep

    async def stop(transport: BlockingTransport, seconds: float) -> None:
        signal.raise_signal(signal.SIGTERM)
        await sleep(transport, 0.0)

    monkeypatch.setattr(BlockingTransport, "sleep", stop)
    cluster = BrokerOptions(bootstrap=address)
    assert ship(cluster, "t", file, state, Records(), from_end=False) == EXIT_UNREACHABLE
    assert json.loads(state.read_text())["position"] == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3, said
    begun, refused, ended = said
    assert begun == f"{file}: shipping to topic t from byte 0, at {address}"
    assert refused == f"cannot connect to {address}: connection refused; retrying until it answers"
    assert ended == f"{file}: 0 lines shipped, 2 not shipped; the next start ships them"


def test_lines_the_producer_did_not_accept_are_not_stored_with_those_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("one\n")
    shipper = place.shipper()
    shipper._turn()
    place.write("two\nthree\n")

    async def lost(lines: list[bytes]) -> None:
        shipper.stop()
        raise ConnectionLost("lost")

    monkeypatch.setattr(shipper._sender, "send", lost)
    shipper.run()
    assert place.stored() == ["one"]
    assert place.noted()["position"] == 4
    assert (shipper.shipped, shipper.unacknowledged) == (1, 2)
    assert shipper.summary().endswith("1 line shipped, 2 not shipped; the next start ships them")


def test_the_first_lines_of_a_file_that_appears_are_not_stored_unacknowledged(
    place: Place,
) -> None:
    shipper = place.shipper()
    place.write("one\n")
    shipper._turn()
    shipper._tail.lines = lambda: []  # type: ignore[method-assign, misc, assignment]
    shipper._save = lambda: None  # type: ignore[method-assign]
    shipper._turn()
    assert place.noted()["position"] == 0
    shipper._tail.close()
    shipper._client.close()


def test_a_stop_waits_no_longer_than_stop_seconds_for_acknowledgements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(follow, "STOP_SECONDS", 0.05)
    file, state = tmp_path / "a.log", tmp_path / "state"
    file.write_text("one\n")
    alarm = signal.getsignal(signal.SIGALRM)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = BrokerOptions(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}")
        stop = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        stop.start()
        began = time.monotonic()
        code = ship(cluster, "t", file, state, Records(), from_end=False)
        assert time.monotonic() - began < 3
        stop.join()
    assert code == EXIT_UNREACHABLE
    assert json.loads(state.read_text())["position"] == 0
    assert "0 lines shipped, 1 not shipped" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGALRM) is alarm
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_error_that_ends_shipping_is_followed_by_the_summary(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write("one\ntwo\n")

    async def refused(*_: object) -> None:
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr(Sender, "send", refused)
    code = ship(place.cluster, "t", place.file, None, Records(), from_end=False)
    assert code == EXIT_FAILED
    error, summary = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("headrace: ")
    assert "0 lines shipped, 2 not shipped" in summary

"""A run's files below the storage: lock, mark, event log, stop request, shipped code."""

import importlib
import os
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.run import event_log
from headrace.pipeline.run.batch_events import NAMES_MAX, _summed
from headrace.pipeline.run.event_log import EventLog, events_of
from headrace.pipeline.run.lock import HeldError, Holder, held, holder_of
from headrace.pipeline.run.shipped_code import zip_of
from headrace.pipeline.run.stop_requests import INTERRUPTED, StopRequests, request_stop
from headrace.pipeline.run.storage import Storage
from headrace.pipeline.run.supervisor import Stop

HOLDER = Holder("r1", os.getpid(), "db7", "2026-11-29T08:00:00Z")


def test_a_held_pipeline_is_refused_with_its_holder(tmp_path: Path) -> None:
    """Rule 14: the second run gets one line at once."""
    lock = tmp_path / "own" / "lock"
    with (
        held(lock, HOLDER),
        pytest.raises(HeldError, match="held by run r1 on db7"),
        held(lock, HOLDER),
    ):
        pass
    with held(lock, HOLDER):
        assert holder_of(lock) == HOLDER
    assert holder_of(lock) is None, "the content of a released lock counts for nothing"
    assert holder_of(tmp_path / "none") is None


def test_a_reader_of_the_holder_does_not_refuse_a_run(tmp_path: Path) -> None:
    """A shared lock for an instant is no other run."""
    import fcntl
    import threading

    lock = tmp_path / "lock"
    lock.touch()
    with lock.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        release = threading.Timer(0.08, fcntl.flock, (reader, fcntl.LOCK_UN))
        release.start()
        with held(lock, HOLDER):
            assert holder_of(lock) == HOLDER
        release.join()


def test_storage_of_another_profile_or_pipeline_is_refused(tmp_path: Path) -> None:
    """Rule 28: a development run never writes production's tables."""
    storage = Storage(tmp_path / "data")
    storage.claim("shop", "prod")
    storage.claim("shop", "prod")
    for name, profile in [("shop", "dev"), ("shop", None), ("billing", "prod")]:
        with pytest.raises(DeclarationError, match="is written by pipeline shop with profile prod"):
            storage.claim(name, profile)
    assert storage.marked() == {"pipeline": "shop", "profile": "prod"}


def test_a_damaged_mark_is_an_error_and_not_overwritten(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.claim("shop", None)
    storage.mark.write_text("{")
    with pytest.raises(DeclarationError, match="is damaged"):
        storage.claim("shop", None)
    assert storage.mark.read_text() == "{"


def test_a_checkpoint_is_that_of_the_newest_version(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    assert storage.checkpoint("t", "f") == tmp_path / "_checkpoints" / "t" / "f" / "0"
    for number in ("2", "10", "9"):
        (tmp_path / "_checkpoints" / "t" / "f" / number).mkdir(parents=True)
    assert storage.checkpoint("t", "f").name == "10"


def log_to(path: Path) -> tuple[EventLog, list[dict[str, Any]]]:
    shown: list[dict[str, Any]] = []
    return EventLog(path, shown.append, lambda: "now"), shown


def test_an_event_is_in_the_file_before_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "r.jsonl"
    order = []
    log = EventLog(path, lambda event: order.append((event["event"], len(path.read_text()) > 0)))
    log.add("run", run="r")
    log.close()
    assert order == [("run", True)]


def test_a_full_disk_loses_events_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 24: events are counted as lost; the next one that is written says how many."""
    path = tmp_path / "r.jsonl"
    log, shown = log_to(path)
    log.add("first")
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        real(descriptor, data[:5])  # A part of the line was still written.
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        log.add("second")
        log.add("third")
    log.add("fourth")
    log.add("fifth")
    log.close()
    assert [event["event"] for event in shown] == ["first", "second", "third", "fourth", "fifth"]
    found = list(events_of(path))
    assert [event["event"] for event in found] == ["first", "fourth", "fifth"]
    assert [event.get("events_lost") for event in found] == [None, 2, None]


def test_a_log_that_cannot_be_created_stops_nothing(tmp_path: Path) -> None:
    """Rule 24: storage without a directory for logs."""
    (tmp_path / "runs").write_text("no directory")
    log, shown = log_to(tmp_path / "runs" / "r.jsonl")
    log.add("run")
    log.close()
    assert len(shown) == 1


def test_a_line_that_a_crash_cut_off_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"event":"run"}\n{"event":"ba')
    assert [event["event"] for event in events_of(tmp_path / "r.jsonl")] == ["run"]


def test_a_long_log_begins_again_with_the_state_of_its_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of months has a log of bounded size, from which its status can be read."""
    monkeypatch.setattr(event_log, "ROLL_BYTES", 600)
    path = tmp_path / "r.jsonl"
    log, shown = log_to(path)
    log.add("run", run="r")
    log.add("flow", flow="a", state="started")
    log.add("flow", flow="b", state="started")
    log.add("flow", flow="a", state="waiting")
    for number in range(40):
        log.add("batch", flow="b", batch=number, padding="x" * 40)
    log.close()
    assert len(shown) == 44
    found = list(events_of(path))
    assert [event["event"] for event in found[:3]] == ["run", "flow", "flow"]
    assert [event["state"] for event in found[1:3]] == ["waiting", "started"]
    numbers = [event["batch"] for event in found[3:]]
    assert numbers == list(range(numbers[0], 40))
    assert path.stat().st_size < 800
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.jsonl", "r.jsonl.1"]


def test_only_the_newest_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "RUNS_KEPT", 3)
    for number in range(5):
        (tmp_path / f"{number}.jsonl").touch()
        (tmp_path / f"{number}.log").touch()
    log, _ = log_to(tmp_path / "5.jsonl")
    log.add("run")
    log.close()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["3.jsonl", "3.log", "4.jsonl", "4.log", "5.jsonl"]


def test_a_stop_request_is_obeyed_by_its_run_only(tmp_path: Path) -> None:
    file = tmp_path / "stop"
    stops = StopRequests(file, "r1")
    assert stops.current() is None
    request_stop(file, "r2", "db8")
    assert stops.current() is None, "a request to an earlier run"
    request_stop(file, "r1", "db8")
    assert stops.current() == Stop(0, "headrace pipeline stop on db8")
    stops.clear()
    assert not file.exists()
    file.write_text("{")
    assert stops.current() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_is_a_stop_request(tmp_path: Path, number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    stops = StopRequests(tmp_path / "stop", "r1")
    with stops.listening():
        os.kill(os.getpid(), number)
        assert stops.current() == Stop(code, number.name)
        assert stops.happened.is_set()
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_shipped_code_has_the_modules_of_the_project_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "lib" / "deep" / "helper.py").write_text("VALUE = 41")
    (tmp_path / "top.py").write_text("")
    for hidden in (".git", "data", "env"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "no.py").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "secret.properties").touch()
    first = zip_of(tmp_path, tmp_path / "data", tmp_path / "data" / "own")
    with zipfile.ZipFile(first) as archive:
        assert sorted(archive.namelist()) == [
            "lib/",
            "lib/deep/",
            "lib/deep/helper.py",
            "top.py",
        ]
    content = first.read_bytes()
    assert zip_of(tmp_path, tmp_path / "data", tmp_path / "data" / "own") == first
    assert first.read_bytes() == content, "the same code gives the same bytes"
    monkeypatch.syspath_prepend(str(first))
    assert importlib.import_module("lib.deep.helper").VALUE == 41
    for name in ("lib", "lib.deep", "lib.deep.helper"):
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "top.py").write_text("CHANGED = 1")
    assert zip_of(tmp_path, tmp_path / "data", tmp_path / "data" / "own") != first


def test_two_hosts_that_request_a_stop_at_once_leave_a_whole_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, flush, other = tmp_path / "stop", os.fsync, ["db9"]

    def meanwhile(descriptor: int) -> None:
        if other:
            request_stop(file, "r1", other.pop())
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    request_stop(file, "r1", "db8")
    assert StopRequests(file, "r1").current() == Stop(0, "headrace pipeline stop on db8")
    assert [each.name for each in tmp_path.iterdir()] == ["stop"]


def test_a_long_log_begins_again_with_each_stale_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "ROLL_BYTES", 600)
    log, _ = log_to(tmp_path / "r.jsonl")
    log.add("flow", flow="a", state="started")
    log.add("stale", flow="a", check="fresh at")
    log.add("stale", flow="a", check="fresh paid")
    log.add("fresh", flow="a", check="fresh paid")
    for number in range(10):
        log.add("batch", flow="b", batch=number, padding="x" * 40)
    log.close()
    kept = [(event["event"], event.get("check")) for event in events_of(tmp_path / "r.jsonl")]
    assert kept[:3] == [("flow", None), ("stale", "fresh at"), ("fresh", "fresh paid")]


def test_counts_of_undeclared_keys_are_summed_by_topic_and_name() -> None:
    tasks = [{"t": {"a": 1, "b": 5}}, {"t": {"a": 2}, "u": {"a": 7}}, {}]
    assert _summed(tasks) == {"t": {"b": 5, "a": 3}, "u": {"a": 7}}
    many = _summed([{"t": {f"k{number}": number + 1 for number in range(NAMES_MAX + 5)}}])["t"]
    assert len(many) == NAMES_MAX
    assert "k0" not in many, "the most frequent names are kept"

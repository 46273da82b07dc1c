"""Feeding: every line once, in order, and no partition far ahead of another in event time."""

import gzip
import time
from pathlib import Path

import pytest

from examples.access_log.broker import BrokerFailed
from examples.access_log.demo import main
from examples.access_log.feed import STEP_S, Record, feed, records, steps
from examples.access_log.folder import DECLARATIONS, FORMAT, MARK, PROJECT, claim, copy_project
from examples.access_log.log_file import LogFile
from examples.access_log.pipeline.access_line import parse_timed

START = 1_795_201_318


def line(second: float) -> bytes:
    return (
        b'192.0.2.7 - - [20/Nov/2026:19:04:43 +0000] "GET / HTTP/1.1" 200 1 "-" "-" '
        + f"{START + second:.3f} 0.001".encode()
    )


class Kept:
    """A sink that keeps what it is sent, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Record]] = []

    def send(self, records: list[Record]) -> None:
        self.calls.append(records)


def test_a_line_is_keyed_by_its_client_and_carries_its_event_time() -> None:
    (record,) = records([line(0.25)], parse_timed)
    assert record == Record(b"192.0.2.7", line(0.25), START * 1000 + 250)


def test_a_line_that_cannot_be_read_has_no_key_and_the_time_it_arrived() -> None:
    before = time.time_ns() // 1_000_000
    (record,) = records([b"\x00 junk"], parse_timed)
    assert (record.key, record.value) == (None, b"\x00 junk")
    assert before <= record.timestamp_ms <= time.time_ns() // 1_000_000


def test_every_line_is_sent_once_and_in_order_whatever_is_damaged() -> None:
    lines = [b"first is junk", *(line(i / 3) for i in range(100)), b"junk", line(40), b"last"]
    sink = Kept()
    counts = [len(step) for step in feed(lines, parse_timed, sink, None)]
    assert [record.value for call in sink.calls for record in call] == lines
    assert sum(counts) == len(lines)


def test_records_of_one_step_are_never_further_apart_than_the_step() -> None:
    lines = [line(i * 1.7) for i in range(200)]
    for _, step in steps(lines, parse_timed):
        times = [record.timestamp_ms for record in step]
        assert max(times, default=0) - min(times, default=0) < STEP_S * 1000


def test_an_hour_of_silence_is_fed_in_order_too() -> None:
    sink = Kept()
    list(feed([line(0), line(3600), line(3601)], parse_timed, sink, None))
    sent = [record.value for call in sink.calls for record in call]
    assert sent == [line(0), line(3600), line(3601)]


def test_speed_is_seconds_of_the_log_per_second() -> None:
    started = time.monotonic()
    list(feed([line(0), line(20)], parse_timed, Kept(), 100.0))
    assert time.monotonic() - started >= 0.2


def test_the_demo_writes_into_its_own_directory_or_an_empty_one_only(tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim(out)
    (out / "old").touch()
    claim(out)
    assert [file.name for file in out.iterdir()] == [MARK]
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="did not write"):
        claim(tmp_path)
    assert (tmp_path / "mine").exists()


def test_a_demo_that_cannot_run_says_why_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_broker(_folder: Path) -> None:
        raise BrokerFailed("the broker did not start: no space left")

    monkeypatch.setattr("examples.access_log.demo.running_broker", no_broker)
    assert main(["--out", str(tmp_path / "out")]) == 1
    assert "no space left" in capsys.readouterr().out


@pytest.mark.parametrize("speed", ["0", "-3", "fast"])
def test_a_speed_that_is_none_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--speed", speed])
    assert "invalid _speed value" in capsys.readouterr().err


def test_a_step_of_lines_that_cannot_be_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.access_log.feed.STEP_RECORDS_MAX", 10)
    sizes = [len(step) for _, step in steps([b"junk"] * 25, parse_timed)]
    assert sizes == [10, 10, 5]


def test_a_log_is_counted_and_read_once_also_when_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\r\ntwo\nthree")
    log = LogFile.of(path)
    with path.open("ab") as file:
        file.write(b"\nfour\n")
    assert (log.count, list(log.lines())) == (3, [b"one", b"two", b"three"])


def test_a_compressed_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(LogFile.of(path).lines()) == [b"one", b"two"]


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "access.log").touch()
    with pytest.raises(ValueError, match="has no lines"):
        LogFile.of(tmp_path / "access.log")


def test_a_log_of_another_format_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b'{"status": 200}\n')
    assert main(["--log", str(path), "--out", str(tmp_path / "out")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "of the format combined (ends before user" in said
    assert "formats are timed, combined, json" in said
    assert not (tmp_path / "out").exists()


def test_the_copied_project_reads_lines_of_the_chosen_format(tmp_path: Path) -> None:
    copied = copy_project(tmp_path / "pipeline", "json")
    text = (copied / "transformations" / "access_log.py").read_text()
    assert FORMAT not in text
    assert 'FORMAT = "json"' in text


def test_the_pipeline_of_the_demo_has_at_most_60_lines() -> None:
    file = PROJECT / DECLARATIONS
    assert len(file.read_text().splitlines()) <= 60

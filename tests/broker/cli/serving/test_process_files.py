"""Commands and the system: going to the background, pid files, copies, closed streams."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.posix import file_copies
from headrace.posix.file_copies import CannotCopy, Copier, Way
from headrace.server.pid_file import NAME, PidFile, default_pid_path, holder
from headrace.terminal.failure import EXIT_NOT_FOUND

BACKGROUND = """
import os, sys, time
from pathlib import Path
from headrace.server import daemon
print("before", flush=True)
daemon.detach(Path(sys.argv[1]))
print("from the background", os.getsid(0) == os.getpid(), repr(sys.stdin.read()), flush=True)
print("its errors", file=sys.stderr, flush=True)
"""


def detached(log_file: Path, end: str) -> "subprocess.CompletedProcess[str]":
    """What a command says that went to the background and then did what `end` says."""
    return subprocess.run(
        [sys.executable, "-c", BACKGROUND + end, str(log_file)],
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_a_command_in_the_background_shows_what_it_said_until_it_listened(tmp_path: Path) -> None:
    log_file = tmp_path / "made" / "headrace.log"
    done = detached(log_file, "daemon.release_parent(); daemon.release_parent()\n")
    said = "from the background True ''\nits errors\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"before\n{said}", "")
    assert log_file.read_text() == said
    assert log_file.stat().st_mode & 0o777 == 0o644 & ~umask()
    again = detached(log_file, "daemon.release_parent()\n")
    assert again.stdout == f"before\n{said}", "what was there before is not shown"
    assert log_file.read_text() == said * 2


def umask() -> int:
    """The process's mask of file modes."""
    before = os.umask(0)
    os.umask(before)
    return before


@pytest.mark.parametrize(
    ("end", "code"),
    [("sys.exit(3)", 3), ("sys.exit(0)", 0), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)],
)
def test_a_command_that_fails_in_the_background_ends_with_its_code_and_shows_why(
    end: str, code: int, tmp_path: Path
) -> None:
    done = detached(tmp_path / "log", end)
    assert done.returncode == code
    assert done.stdout.endswith("its errors\n")


def test_a_pid_file_is_its_processs_while_that_holds_it(tmp_path: Path) -> None:
    path = default_pid_path([str(tmp_path / "made"), "other"])
    assert path == tmp_path / "made" / NAME
    assert holder(path) is None
    held = PidFile(path)
    held.give_up()
    held.take()
    assert path.read_text() == f"{os.getpid()}\n"
    assert path.stat().st_mode & 0o777 == 0o644 & ~umask()
    assert holder(path) == os.getpid()
    with pytest.raises(BlockingIOError):
        PidFile(path).take()
    assert path.read_text() == f"{os.getpid()}\n"
    held.give_up()
    assert not path.exists()
    path.write_text("123456789\n")
    assert holder(path) is None, "nobody holds what is left over"
    held.take()
    assert path.read_text() == f"{os.getpid()}\n"
    path.unlink()
    held.give_up()


def test_stopping_what_does_not_run_is_said_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stop", "--data", str(tmp_path)]) == EXIT_NOT_FOUND == 4
    assert capsys.readouterr().err == f"headrace: no broker is running with {tmp_path / NAME}\n"


HOLDS = """
import signal, sys, time
from pathlib import Path
from headrace.server.pid_file import PidFile
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "stays" else signal.SIG_DFL)
PidFile(Path(sys.argv[1])).take()
print("holds", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("does", ["goes", "stays"])
def test_a_process_is_stopped_and_waited_for_so_long(
    does: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "its.pid"
    command = [sys.executable, "-c", HOLDS, str(path), does]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        limit = "20" if does == "goes" else "0.2"
        code = run(["stop", "--pid-file", str(path), "--timeout", limit])
        said = capsys.readouterr()
        if does == "goes":
            assert (code, said.out) == (0, f"stopped process {process.pid}\n")
            assert process.wait(10) == -signal.SIGTERM
        else:
            assert code == 1
            words = "is still running after 0.2 s; it may be flushing: wait for it"
            assert said.err == f"headrace: process {process.pid} {words}\n"
            process.kill()


# copies


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "00.log"
    path.write_bytes(b"0123456789")
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    return path


def test_a_copy_is_on_the_disk_when_it_is_made(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bytes] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(file_copies.os, "fsync", noted)  # type: ignore[attr-defined]
    target, told = tmp_path / "copy", list[int]()
    Copier("copy", told.append)(str(source), str(target), True)
    assert flushed == [b"0123456789"]
    assert told == [10]
    assert target.stat().st_mtime_ns == 2_000_000_000
    assert target.stat().st_mode & 0o777 == 0o644 & ~umask()


def test_a_closed_segment_is_linked_and_one_that_grows_is_copied(
    source: Path, tmp_path: Path
) -> None:
    told: list[int] = []
    for closed in (True, False):
        target = tmp_path / f"closed {closed}"
        Copier("link", told.append)(str(source), str(target), closed)
        assert os.path.samefile(source, target) is closed
        assert target.read_bytes() == b"0123456789"
    assert told == [10, 10]


def test_many_chunks_are_copied_each_once_and_a_shorter_file_replaces_a_longer_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copies, "_CHUNK_BYTES", 4)
    target, told = tmp_path / "copy", list[int]()
    target.write_bytes(bytes(100))
    Copier("copy", told.append)(str(source), str(target), True)
    assert (target.read_bytes(), told) == (b"0123456789", [4, 4, 2])


@pytest.mark.parametrize(
    ("way", "number", "refused"),
    [("link", errno.EXDEV, True), ("link", errno.ENOSPC, False), ("copy", errno.EINVAL, False)],
)
def test_what_a_file_system_cannot_is_said_with_the_way_around_it(
    way: Way, number: int, refused: bool, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_copies.os, "link", fails)  # type: ignore[attr-defined]
    monkeypatch.setattr(file_copies.os, "fsync", fails)  # type: ignore[attr-defined]
    target = source.with_name("target")
    copier = Copier(way, list[int]().append)
    if refused:
        with pytest.raises(CannotCopy) as said:
            copier(str(source), str(target), True)
        assert str(said.value) == (
            f"{target}: this file system cannot make a link of {source} (invalid cross-device link)"
        )
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            copier(str(source), str(target), True)


def test_a_command_started_with_its_streams_closed_says_nothing_and_breaks_nothing() -> None:
    for closed, speaks in (("<&-", True), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)):
        command = f'"{sys.executable}" -m headrace version {closed}'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, closed
        assert done.stderr == "", closed
        assert bool(done.stdout) is speaks, closed

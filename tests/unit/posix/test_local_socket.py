"""The Unix socket for administration: whose file it is, what it replaces, who gets through."""

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.transport.local_socket import open_local_socket
from headrace.posix.local_socket import LocalListening


def left_behind(path: Path) -> None:
    """A socket's file that nobody listens on, as a kill leaves it."""
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
        gone.listen()


@pytest.fixture(autouse=True)
def wide_mask() -> Iterator[None]:
    """Files would be for everybody, if it were for the process's mask."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_file_is_its_owners_alone_from_the_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    made = LocalListening.bind(str(path), 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made.close()
    assert not path.exists()


def test_a_path_longer_than_a_sockets_may_be_works_on_both_ends(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    directory.chmod(0o700)
    made = LocalListening.bind(str(directory / "admin.sock"), 5)
    open_local_socket(str(directory / "admin.sock"), 10).close()
    open_local_socket(str(directory), 10).close()
    made.close()


def test_what_a_killed_broker_left_is_replaced_and_a_running_ones_is_not(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    left_behind(path)
    made = LocalListening.bind(str(path), 5)
    with pytest.raises(OSError, match="a running process listens on it"):
        LocalListening.bind(str(path), 5)
    open_local_socket(str(path), 10).close()
    made.close()


def test_something_else_of_that_name_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="not a socket"):
        LocalListening.bind(str(path), 5)
    assert path.read_text() == "mine"
    path.unlink()
    elsewhere = tmp_path / "elsewhere"
    left_behind(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        LocalListening.bind(str(path), 5)
    assert elsewhere.exists()


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False), (0o775, False)])
def test_a_directory_that_all_may_write_to_is_refused(
    tmp_path: Path, mode: int, refused: bool
) -> None:
    tmp_path.chmod(mode)
    path = str(tmp_path / "admin.sock")
    if refused:
        with pytest.raises(OSError, match="its directory is writable by all: chmod o-w"):
            LocalListening.bind(path, 5)
        assert not os.path.exists(path)
    else:
        LocalListening.bind(path, 5).close()


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        monkeypatch.setattr(os, "stat", lambda path: os.stat_result((0o700, *[7] * 9)))
    with pytest.raises(OSError, match="use your own"):
        LocalListening.bind(str(tmp_path / "admin.sock"), 5)


def test_a_file_that_became_anothers_stays_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    made = LocalListening.bind(str(path), 5)
    path.unlink()
    left_behind(path)
    made.close()
    assert path.exists()


def test_a_client_does_not_speak_to_who_is_not_the_directorys_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "admin.sock"
    made = LocalListening.bind(str(path), 5)
    monkeypatch.setattr("headrace.client.transport.local_socket.ROOT", -1)
    open_local_socket(str(path), 10).close()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    open_local_socket(str(path), 10).close()  # the owner of its directory
    real = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda number: os.stat_result((*real(number)[:4], 54321, *real(number)[5:]))
    )
    with pytest.raises(OSError, match="not the directory's owner"):
        open_local_socket(str(path), 10)
    made.close()


def test_nobody_is_let_in_before_it_accepts(tmp_path: Path) -> None:
    came = []

    class Seen(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            came.append(transport)

    async def main() -> None:
        made = LocalListening.bind(str(tmp_path / "admin.sock"), 5)
        client = open_local_socket(str(tmp_path), 10)
        await asyncio.sleep(0.01)
        assert came == []
        await made.accept(Seen)
        for _ in range(1000):
            if came:
                break
            await asyncio.sleep(0.01)
        assert came
        client.close()
        made.close()

    asyncio.run(main())

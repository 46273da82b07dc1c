"""What tests of the room share: a real disk, calls that flush, descriptors that must be closed."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.posix.disk import RealDisk
from headrace.posix.flush_strategies import Syncfs
from headrace.posix.threads import Workers


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    loop = asyncio.new_event_loop()
    yield RealDisk(Workers(loop))
    loop.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Calls that make something durable, in order: which, and of what inode."""
    calls: list[tuple[str, int]] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, noting(calls, name))
    monkeypatch.setattr(
        Syncfs,
        "flush",
        lambda _, fds, size, devices: calls.extend(
            ("syncfs", os.fstat(fd).st_ino) for fd in devices
        ),
    )
    return calls


def noting(calls: list[tuple[str, int]], name: str) -> Callable[[int], None]:
    return lambda fd: calls.append((name, os.fstat(fd).st_ino))


@pytest.fixture
def no_descriptor_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert [link for link in links if link.startswith(str(tmp_path))] == []

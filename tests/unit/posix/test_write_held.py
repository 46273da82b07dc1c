"""What the real disk holds back of a pass, where it is needed before the pass ends."""

import errno
import os
from pathlib import Path

import pytest

from headrace.posix.disk import RealDisk


def test_what_was_needed_before_the_pass_ended_and_could_not_be_written_is_told_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(None)
    file = disk.open(str(tmp_path / "f"), create=True)
    disk.begin_gather()
    file.write_at(0, [b"held"])

    def full(fd: int, position: int, parts: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as failing:
        failing.setattr("headrace.posix.files.write_all", full)
        with pytest.raises(OSError, match="No space"):
            file.write_held()
    failed = disk.end_gather(print)
    assert failed is not None
    assert [(path, error.errno) for path, error in failed] == [(file.path, errno.ENOSPC)]
    disk.begin_gather()
    assert disk.end_gather(print) == [], "once is enough"
    file.close()

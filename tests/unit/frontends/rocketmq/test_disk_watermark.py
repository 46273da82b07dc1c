"""The disk watermark of RocketMQ's sends: per file system, measured again as space changes."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.free_space import LOOK_SECONDS_MAX
from headrace.frontends.rocketmq.administration.disk_watermark import DiskWatermark
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.wire.rocketmq.codes import ResponseCode

TOTAL = 1_000_000


class Disks:
    """Two log directories on disks whose free bytes the test says."""

    def __init__(self, percent: int = 90) -> None:
        self.free: dict[str, int | OSError] = {"/one": TOTAL, "/two": TOTAL}
        self.now = 0.0
        self.looks = 0
        self.logs = {path: cast("Any", SimpleNamespace(context=object())) for path in self.free}
        broker = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now),
            disk=SimpleNamespace(free_bytes=self._free, total_bytes=lambda path: TOTAL),
            directories=[
                SimpleNamespace(path=path, context=log.context) for path, log in self.logs.items()
            ],
        )
        self.watermark = DiskWatermark(cast("Any", broker), percent)

    def _free(self, path: str) -> int:
        self.looks += 1
        found = self.free[path]
        if isinstance(found, OSError):
            raise found
        return found

    def refused(self, path: str = "/one") -> bool:
        """Return whether a send to a directory is refused, when all is measured again."""
        self.now += LOOK_SECONDS_MAX
        try:
            self.watermark.check(self.logs[path])
        except RequestRefused:
            return True
        return False


def test_sends_are_refused_above_the_watermark_and_accepted_at_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disks = Disks()
    assert not disks.refused()
    disks.free["/one"] = TOTAL // 10
    assert not disks.refused()
    disks.free["/one"] = TOTAL // 10 - 1
    assert disks.refused()
    with pytest.raises(RequestRefused, match="/one is more than 90 % full") as refusal:
        disks.watermark.check(disks.logs["/one"])
    assert refusal.value.answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    disks.free["/one"] = TOTAL // 10
    assert not disks.refused(), "sends are accepted again without a restart"
    lines = [(each.levelno, each.getMessage()) for each in caplog.records]
    assert [level for level, _ in lines] == [logging.ERROR, logging.WARNING], "once each"
    assert "rocketmq.disk.max.used.percent=90" in lines[0][1]


def test_each_directory_has_its_own_watermark() -> None:
    disks = Disks()
    disks.free["/one"] = 0
    assert disks.refused("/one")
    assert not disks.refused("/two")
    disks.free["/two"] = 0
    disks.free["/one"] = TOTAL
    assert not disks.refused("/one")
    assert disks.refused("/two")


def test_a_disk_that_fills_soon_is_measured_soon_and_another_seldom() -> None:
    disks = Disks()
    for _ in range(100):
        disks.watermark.check(disks.logs["/one"])
    assert disks.looks == 1
    disks.now += 0.11  # near the mark: a small disk may be full after 0.1 s
    disks.free["/one"] = 0
    with pytest.raises(RequestRefused):
        disks.watermark.check(disks.logs["/one"])


def test_an_unreadable_disk_leaves_the_state_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    disks = Disks()
    disks.free["/one"] = OSError(5, "Input/output error")
    assert not disks.refused()
    disks.free["/one"] = 0
    assert disks.refused()
    disks.free["/one"] = OSError(5, "Input/output error")
    assert disks.refused()
    assert "Input/output error" in caplog.text
    disks.free["/one"] = TOTAL
    assert not disks.refused()


def test_a_watermark_of_100_percent_never_refuses() -> None:
    disks = Disks(100)
    disks.free["/one"] = 0
    assert not disks.refused()
    assert disks.looks == 0

"""Freshness of tables: stale, fresh again, over runs, with a played clock."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.run.freshness import Freshness
from headrace.spark.checks.check import Fresh

START = datetime(2026, 11, 28, 10, 0, tzinfo=UTC)
CHECKS = (Fresh("at", "15 minutes"),)


class Clock:
    """The checks of a run at given minutes after its start."""

    def __init__(self, file: Path, checks: tuple[Fresh, ...] = CHECKS, start: int = 0) -> None:
        started = START + timedelta(minutes=start)
        self.freshness = Freshness(file, {"orders": checks, "other": ()}, started)
        self.events: list[dict[str, Any]] = []

    def at(self, minute: float) -> list[dict[str, Any]]:
        """Return the events of a turn at this time."""
        self.events.clear()
        now = START + timedelta(minutes=minute)
        self.freshness.report(lambda event, **more: self.events.append({event: more}), now)
        return list(self.events)

    def wrote(self, minute: float) -> None:
        time = START + timedelta(minutes=minute)
        self.freshness.take("orders", {"at": time.isoformat().replace("+00:00", "Z")})


def stale(since: str, newest: str | None, check: str = "fresh at") -> dict[str, Any]:
    values = {"flow": "orders", "check": check, "newest": newest, "since": since}
    return {"stale": values}


def test_a_flow_is_stale_once_and_fresh_again_after_a_newer_row(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "newest.json")
    clock.wrote(3)
    assert clock.at(18) == [], "as old as allowed"
    assert clock.at(18.1) == [stale("2026-11-28T10:18:00Z", "2026-11-28T10:03:00Z")]
    assert clock.at(30) == [], "reported once"
    clock.wrote(2)
    assert clock.at(31) == [], "a late row is not newer"
    clock.wrote(20)
    clock.wrote(5)
    assert clock.at(32) == [{"fresh": {"flow": "orders", "check": "fresh at"}}]
    assert clock.at(33) == []
    assert clock.at(36) == [stale("2026-11-28T10:35:00Z", "2026-11-28T10:20:00Z")]


def test_a_flow_without_a_row_is_stale_after_the_time_from_its_start(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "newest.json")
    assert clock.at(15) == []
    assert clock.at(16) == [stale("2026-11-28T10:15:00Z", None)]


def test_the_newest_time_survives_the_run(tmp_path: Path) -> None:
    """A run from cron that finds no record reports the stale table."""
    file = tmp_path / "newest.json"
    first = Clock(file)
    first.wrote(1)
    first.freshness.save()
    for start in (60, 120):
        later = Clock(file, start=start)
        assert later.at(start) == [stale("2026-11-28T10:16:00Z", "2026-11-28T10:01:00Z")]
        later.freshness.save()


@pytest.mark.parametrize("content", ["{", "[]", '{"orders": 1}', '{"orders": {"at": "soon"}}'])
def test_a_damaged_file_is_as_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "newest.json"
    file.write_text(content)
    assert Clock(file).at(1) == []


def test_a_disk_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    """Rule 24: only the next run's knowledge is lost."""
    (tmp_path / "file").touch()
    clock = Clock(tmp_path / "file" / "newest.json")
    clock.wrote(1)
    clock.freshness.save()


def test_each_column_has_a_time_of_its_own(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "newest.json", (Fresh("at", "1 hour"), Fresh("paid", "1 minute")))
    clock.wrote(0)
    clock.freshness.take("orders", {"paid": "2026-11-28T10:00:30Z"})
    assert clock.at(5) == [stale("2026-11-28T10:01:30Z", "2026-11-28T10:00:30Z", "fresh paid")]

"""The kill loop in small; `make crash` runs it 100 times."""

import time
from pathlib import Path

import pytest

from tests.crash.kill_loop import ride


@pytest.mark.filterwarnings("default")
def test_nothing_acknowledged_is_lost_doubled_or_reordered_by_kills_under_load(
    tmp_path: Path,
) -> None:
    verdict = ride(tmp_path, kills=5, seed=20260501)
    print(verdict)
    assert verdict.holds(), str(verdict)


@pytest.mark.filterwarnings("default")
def test_producers_of_events_long_past_are_remembered_through_kills(tmp_path: Path) -> None:
    month_ago = int(time.time() * 1000) - 30 * 86_400_000
    verdict = ride(tmp_path, kills=3, seed=20260502, event_ms=month_ago)
    assert verdict.holds(), str(verdict)

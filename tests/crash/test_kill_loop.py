"""The kill loop in small; `make crash` runs it 100 times."""

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

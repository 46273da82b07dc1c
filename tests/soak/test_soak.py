"""The soak in small; `make soak` runs it for ten minutes, where growth shows."""

from pathlib import Path

import pytest

from tests.soak.run import Soak, Use, Verdict


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("restarts", [1])
def test_a_short_soak_loses_nothing_and_serves_nothing_wrong(tmp_path: Path, restarts: int) -> None:
    verdict = Soak(tmp_path, seconds=16, restarts=restarts).go(growth_max=2.0)
    print(verdict.table())
    assert verdict.problems() == []


def test_a_soak_in_which_something_grew_or_was_wrong_does_not_hold() -> None:
    counts = {"written": 10_000}
    calm = Use(1000, 100)
    assert Verdict(60, counts, [], calm, Use(1100, 110), 0).problems() == []
    assert Verdict(60, counts, [], calm, Use(1101, 100), 0).problems()
    assert Verdict(60, counts, [], calm, Use(1000, 111), 0).problems()
    assert Verdict(60, counts, ["went back"], calm, calm, 0).problems()
    assert Verdict(60, {}, [], calm, calm, 0).problems(), "nothing written proves nothing"
    assert Verdict(60, counts, [], calm, calm, 0, complaints=["ERROR"]).problems()

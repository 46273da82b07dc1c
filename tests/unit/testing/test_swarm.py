"""The command that plays many seeds says what it has seen, and which seed failed."""

from collections import Counter

import pytest

from headrace.testing.sim import swarm
from headrace.testing.sim.replicated import Told
from headrace.testing.sim.swarm import EXPECTED, Verdict

ALL = Counter(dict.fromkeys(EXPECTED, 1))


def run(monkeypatch: pytest.MonkeyPatch, count: int, *verdicts: Verdict) -> int:
    """Run so many seeds, which come to these verdicts, and then to the first one again."""
    found = {verdict.seed: verdict for verdict in verdicts}
    monkeypatch.setattr(
        swarm, "judged", lambda seed: found.get(seed, verdicts[0]._replace(seed=seed))
    )
    return swarm.run(range(count), jobs=1)


def verdict(seed: int, counts: Counter[str], failure: str = "") -> Verdict:
    return Verdict(seed, Told(600, 600, 3, counts), failure, "", 1.0)


def test_a_seed_that_fails_is_named_with_how_to_play_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = Verdict(1, None, "Broken: G1: lost", "", 1.0)
    assert run(monkeypatch, 2, verdict(0, ALL), lost) == 1
    shown = capsys.readouterr().out
    assert "seed 1: Broken: G1: lost" in shown
    assert "make sim SEED=1 ARGS=replicated_work" in shown
    assert "2 seeds, 1 failed; 600 acknowledged" in shown


def test_a_run_of_100_seeds_fails_where_a_branch_was_never_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ALL.copy()
    del some["joins below the term's start"]
    assert run(monkeypatch, 99, verdict(0, some)) == 0
    assert run(monkeypatch, 100, verdict(0, some)) == 1
    assert "never: joins below the term's start" in capsys.readouterr().out
    assert run(monkeypatch, 100, verdict(0, ALL)) == 0


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        (Told(499, 600, 3, ALL), "only 499 records were acknowledged, not 500"),
        (Told(600, 600, 1, ALL), "only 1 elections, not 2"),
        (Told(500, 0, 2, ALL), ""),
    ],
)
def test_a_seed_in_which_too_little_happened_fails(told: Told, failure: str) -> None:
    assert swarm._too_little(told) == failure

"""A few kills of `remoting_kill_loop`; `make crash` does a hundred."""

from pathlib import Path

from tests.crash.remoting_kill_loop import Ride

LEAST = 15
"""Messages of each kind that are answered before a kill."""


def test_held_messages_and_offsets_survive_kills_and_all_doors_agree(tmp_path: Path) -> None:
    verdict = Ride(tmp_path, seed=20261129).ride(kills=3, least=LEAST)
    assert verdict.problems == []
    assert min(verdict.answered) >= 3 * LEAST

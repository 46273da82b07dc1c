"""The kill loop of AMQP in small; `make crash` runs it 100 times."""

from pathlib import Path

from tests.crash.queue_kill_loop import ride


def test_what_was_confirmed_is_delivered_and_what_was_settled_stays_away_through_kills(
    tmp_path: Path,
) -> None:
    verdict = ride(tmp_path, kills=2, seed=20261124)
    print(verdict)
    assert verdict.holds(), str(verdict)

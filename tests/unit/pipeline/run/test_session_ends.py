"""Runs whose Spark session ends before they do: its Java process was killed."""

import pytest

from headrace.pipeline.run.supervisor import SESSION_ENDED, Mode, Stop
from tests.support.pipeline.played_run import WRONG, Played


@pytest.mark.parametrize("mode", [Mode.CONTINUOUS, Mode.UNTIL_IDLE, Mode.ONCE])
def test_session_that_ends_ends_the_run_at_once(mode: Mode) -> None:
    """Spark's Java process was killed: each call to it fails from then on."""
    played = Played(mode, names=("a", "b"))
    played.at(5, played.lose_session)
    assert played.run() == (1, SESSION_ENDED)
    assert played.now < 6
    assert played.states("a") == played.states("b") == ["started", "interrupted"]
    assert {query.stops for name in "ab" for _, query in played.started[name]} == {0}


def test_session_that_ends_during_a_stop_does_not_change_how_the_run_ends() -> None:
    """A signal to all processes of a service reaches Spark's Java process, too."""
    played = Played(names=("a", "b"))

    def begin() -> None:
        played.query("a").triggered = True
        played.stop = Stop(0, "SIGTERM")

    played.at(5, begin)
    played.at(20, played.lose_session)
    assert played.run() == (0, "stopped by SIGTERM")
    assert 20 <= played.now < 21
    assert played.states("a") == ["started", "interrupted"]
    assert played.states("b") == ["started"], "it was stopped before"
    assert played.events[-1]["text"] == SESSION_ENDED


def test_session_that_ends_just_before_the_runs_own_signal_is_a_stop() -> None:
    played = Played()

    def lose() -> None:
        played.lose_session()
        played.query().when_asked = lambda: setattr(played, "stop", Stop(0, "SIGTERM"))

    played.at(5, lose)
    assert played.run() == (0, "stopped by SIGTERM")


def test_session_that_ends_while_a_failed_run_stops_its_other_flows() -> None:
    played = Played(names=("a", "b"))

    def fail() -> None:
        played.query("b").triggered = True
        played.query("a").end("wrong")

    played.at(5, fail)
    played.at(8, played.lose_session)
    assert played.run() == (WRONG.code, WRONG.text)
    assert 8 <= played.now < 9
    assert played.states("b") == ["started", "interrupted"]

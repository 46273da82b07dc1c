"""The queries of a run: back-off, endings, stop and idleness, with played queries and time."""

from itertools import pairwise
from typing import Any

import pytest

from headrace.pipeline.run.failures import Failure
from headrace.pipeline.run.supervisor import (
    BACKOFF_SECONDS_MAX,
    Flow,
    Mode,
    Stop,
    backoff_seconds,
)
from tests.support.pipeline.played_run import AWAY, LOST, Played, PlayedQuery


def test_once_ends_when_each_query_has_ended() -> None:
    played = Played(Mode.ONCE, ("a", "b"))
    played.at(5, lambda: played.query("a").end())
    played.at(9, lambda: played.query("b").end())
    assert played.run() == (0, "all records are processed")
    assert 9 <= played.now < 10
    assert played.states("a") == played.states("b") == ["started", "done"]


def test_backoff_doubles_from_one_second_to_sixty() -> None:
    assert [backoff_seconds(number) for number in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_seconds(10_000) == BACKOFF_SECONDS_MAX


@pytest.mark.parametrize("failure", [AWAY, LOST])
def test_a_passing_error_restarts_only_its_query_after_the_backoff(failure: Failure) -> None:
    """Rule 27: away brokers and lost workers are waited for, longer each time."""
    played = Played(names=("a", "b"), failures={"passing": failure})
    played.on_start = lambda name, query: (
        query.end("passing") if name == "a" and len(played.started["a"]) <= 3 else None
    )
    played.at(60, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    assert played.run() == (0, "stopped by SIGTERM")
    times = [at for at, _ in played.started["a"]]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert [round(wait) for wait in waits] == [1, 2, 4]
    assert len(played.started["b"]) == 1
    assert [event.get("retry_seconds") for event in played.events if "text" in event] == [1, 2, 4]


def test_backoff_begins_again_after_a_finished_batch() -> None:
    """Rule 27: an error tomorrow is not punished for those of today."""
    played = Played(failures={"passing": AWAY})
    played.on_start = lambda name, query: (
        query.end("passing") if len(played.started[name]) <= 3 else None
    )
    played.at(20, lambda: played.supervisor.finished_batch("a"))
    played.at(30, lambda: played.query().end("passing"))
    played.at(90, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    played.run()
    retries = [event["retry_seconds"] for event in played.events if event["state"] == "waiting"]
    assert retries == [1, 2, 4, 1]


def test_an_exception_of_the_user_ends_the_run_without_a_restart() -> None:
    """Rule 27: no restart loop; the other query stops."""
    played = Played(names=("a", "b"))
    played.at(3, lambda: played.query("a").end("wrong"))
    assert played.run() == (1, "ValueError in orders")
    assert len(played.started["a"]) == 1
    assert played.query("b").stops == 1
    assert played.states("a") == ["started", "failed"]


@pytest.mark.parametrize("mode", [Mode.ONCE, Mode.UNTIL_IDLE])
def test_a_run_that_ends_by_itself_does_not_wait_for_brokers(mode: Mode) -> None:
    played = Played(mode, failures={"away": AWAY})
    played.at(2, lambda: played.query().end("away"))
    assert played.run() == (3, "no broker answers")


@pytest.mark.parametrize("mode", [Mode.ONCE, Mode.UNTIL_IDLE])
def test_a_lost_worker_is_replaced_three_times_in_a_run_that_ends(mode: Mode) -> None:
    played = Played(mode, failures={"lost": LOST})
    played.on_start = lambda _name, query: query.end("lost")
    assert played.run() == (1, "a worker was lost")
    assert len(played.started["a"]) == 4


def test_an_error_of_a_start_is_one_of_the_flow() -> None:
    def refuses(_name: str, _query: PlayedQuery) -> None:
        raise RuntimeError("away")

    played = Played(failures={"away": AWAY}, on_start=refuses)
    played.at(10, lambda: setattr(played, "stop", Stop(130, "SIGINT")))
    assert played.run() == (130, "stopped by SIGINT")
    assert played.states() == ["waiting"] * 4


def test_a_stop_waits_for_the_end_of_a_running_batch() -> None:
    """Rule 15: a batch is not interrupted while it can end."""
    played = Played()

    def begin() -> None:
        played.query().triggered = True
        played.stop = Stop(0, "SIGTERM")

    def finish() -> None:
        assert played.query().stops == 0, "interrupted"
        played.supervisor.finished_batch("a")

    played.at(5, begin)
    played.at(50, finish)
    assert played.run().code == 0
    assert played.query().stops == 1, "stopped although its next batch has begun"
    assert 50 <= played.now < 51


def test_a_stop_does_not_wait_for_a_query_between_two_batches() -> None:
    played = Played()
    played.at(5, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    played.run()
    assert played.now < 6
    assert played.query().stops == 1


def test_a_stop_ends_a_query_that_waits_for_brokers() -> None:
    played = Played(failures={"away": AWAY})
    played.on_start = lambda _name, query: query.end("away")
    played.at(100, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    assert played.run().code == 0
    assert played.now < 101


def test_until_idle_ends_after_all_queries_were_idle_for_longer_than_a_trigger() -> None:
    played = Played(Mode.UNTIL_IDLE, ("a", "b"))
    played.at(8, lambda: played.supervisor.finished_batch("b"))
    assert played.run() == (0, "no new records")
    assert 19 <= played.now < 20


@pytest.mark.parametrize(
    "busy",
    [
        {"triggered": True},
        {"available": True},
        {"message": "Initializing sources"},
    ],
)
def test_a_query_that_works_is_not_idle(busy: dict[str, Any]) -> None:
    played = Played(Mode.UNTIL_IDLE)
    played.on_start = lambda _name, query: query.__dict__.update(busy)
    played.at(100, lambda: played.query().__dict__.update(PlayedQuery().__dict__))
    assert played.run().code == 0
    assert played.now >= 111


def test_until_idle_waits_for_a_query_that_restarts() -> None:
    played = Played(Mode.UNTIL_IDLE, failures={"lost": LOST})
    played.at(10, lambda: played.query().end("lost"))
    assert played.run().code == 0
    assert len(played.started["a"]) == 2
    assert played.now >= 22


def test_a_worker_that_is_lost_each_time_ends_a_continuous_run() -> None:
    """Rule 27: a worker that is killed each time is not restarted without an end."""
    played = Played(names=("a", "b"), failures={"lost": LOST})
    played.supervisor.worker_losses_max = 4
    played.on_start = lambda name, query: query.end("lost") if name == "a" else None
    ending = played.run()
    assert ending.code == 1
    assert ending.text.startswith("a worker was lost; lost 4 times without a finished batch: ")
    assert "worker_losses_max" in ending.text
    assert len(played.started["a"]) == 4
    assert played.query("b").stops == 1
    waits = [event for event in played.events if event["state"] == "waiting"]
    assert [(event["failures"], event["failures_max"]) for event in waits] == [
        (1, 4),
        (2, 4),
        (3, 4),
    ]
    assert [event["retry_seconds"] for event in waits] == [1, 2, 4]


@pytest.mark.parametrize("between", ["batch", "away"])
def test_lost_workers_are_counted_without_a_batch_or_another_error_between(between: str) -> None:
    """State that must reset: a finished batch, or another error, begins the count again."""
    played = Played(failures={"lost": LOST, "away": AWAY})
    played.supervisor.worker_losses_max = 3
    errors = ["lost", "lost", between, "lost", "lost", "lost"]

    def start(_name: str, query: PlayedQuery) -> None:
        error = errors[len(played.started["a"]) - 1]
        if error == "batch":
            played.supervisor.finished_batch("a")
            error = "lost"
        query.end(error)

    played.on_start = start
    assert played.run().code == 1
    losses = 5 if between == "batch" else 6
    assert len(played.started["a"]) == losses


def test_brokers_that_are_away_are_waited_for_without_an_end() -> None:
    """Rule 27: only lost workers are counted."""
    played = Played(failures={"away": AWAY})
    played.supervisor.worker_losses_max = 1
    played.on_start = lambda _name, query: query.end("away")
    played.at(1000, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    assert played.run() == (0, "stopped by SIGTERM")
    assert len(played.started["a"]) > 15
    waits = [event for event in played.events if event["state"] == "waiting"]
    assert {event["failures_max"] for event in waits} == {None}
    assert [event["failures"] for event in waits][:3] == [1, 2, 3]


def test_a_batch_that_does_not_end_is_interrupted() -> None:
    """The end of a run does not wait for a hung batch; the next start repeats it."""
    played = Played(names=("a", "b"))
    played.supervisor.stop_seconds_max = 30.0

    def begin() -> None:
        for name in played.names:
            played.query(name).triggered = True
        played.stop = Stop(0, "SIGTERM")

    played.at(5, begin)
    played.at(12, lambda: played.supervisor.finished_batch("b"))
    assert played.run() == (0, "stopped by SIGTERM")
    assert 35 <= played.now < 36
    assert (played.query("a").stops, played.query("b").stops) == (1, 1)
    assert played.states("a") == ["started", "interrupted"]
    assert played.states("b") == ["started"], "its batch ended in time"
    assert "has not ended within 30 s" in played.events[-1]["text"]


def test_a_query_that_does_not_stop_does_not_hold_the_run() -> None:
    """Spark's stop raises a TimeoutException; the other queries are stopped, too."""

    class Hanging(PlayedQuery):
        def stop(self) -> None:
            super().stop()
            raise RuntimeError("TimeoutException: still running\n  at org.apache.spark")

    played = Played(names=("a", "b"))
    hanging = Hanging()
    supervisor = played.supervisor
    supervisor.flows = [Flow("a", lambda: hanging, played._failure), supervisor.flows[1]]
    played.at(5, lambda: setattr(played, "stop", Stop(0, "SIGTERM")))
    assert played.run().code == 0
    assert hanging.stops == 1
    assert played.query("b").stops == 1
    assert played.states("a") == ["started", "interrupted"]
    assert played.events[-1]["text"] == ("the query does not stop: TimeoutException: still running")

"""What a listener shows of queries, by progress as Spark tells it: under which group, to whom."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.sessions.listener import _end_all, _listener, group_of, positions_of
from headrace.spark.source import cluster
from headrace.spark.source.offsets import Ends, Position

T0 = TopicPartition("t", 0)


class Shown:
    """Connections to clusters, and what is committed by each."""

    made: list["Shown"]
    refused: set[str]

    def __init__(self, bootstrap: str, fetching: Any) -> None:
        self.bootstrap = bootstrap
        self.config_file = fetching.security.config_file
        self.committed: list[tuple[str, int]] = []
        self.closed = False
        Shown.made.append(self)

    def commit(self, group: str, ends: Ends) -> None:
        if group in Shown.refused:
            raise SourceError("nobody is there")
        self.committed.append((group, ends[T0]))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Any:
    Shown.made, Shown.refused = [], set()
    monkeypatch.setattr(cluster, "Cluster", Shown)
    return _listener()


def at(offset: int, **more: Any) -> dict[str, Any]:
    return Position(**{"bootstrap": "h:1", "offsets": {T0: offset}, **more}).to_json()


def progress(*ends: Any, run: str = "run", name: str | None = "query") -> dict[str, Any]:
    sources = [{"endOffset": end} for end in ends]
    return {"name": name, "id": "1234", "runId": run, "sources": sources}


def test_a_group_that_was_given_outweighs_the_name_and_the_name_the_id() -> None:
    given = Position("h:1", {}, group="g")
    assert group_of(given, "name", "id") == "g"
    assert group_of(Position("h:1", {}), "name", "id") == "name"
    assert group_of(Position("h:1", {}), None, "id") == "spark-id"


def test_only_sources_of_ours_are_shown() -> None:
    others: list[Any] = [None, "text", 5, {"t": {"0": 7}}]
    assert [each.offsets for each in positions_of(progress(*others, at(3)))] == [{T0: 3}]
    assert positions_of({"id": "1"}) == []


def test_each_run_has_a_connection_to_each_cluster_by_each_file(listener: Any) -> None:
    for run in ("one", "one", "two"):
        listener.show(progress(at(1), at(2, bootstrap="h:2"), run=run))
        listener.show(progress(at(3, config_file="/f"), run=run))
    assert [(each.bootstrap, each.config_file) for each in Shown.made] == 2 * [
        ("h:1", None), ("h:2", None), ("h:1", "/f"),
    ]  # fmt: skip
    assert Shown.made[0].committed == [("query", 1)] * 2
    listener.onQueryTerminated(SimpleNamespace(runId="one"))
    assert [each.closed for each in Shown.made] == [True] * 3 + [False] * 3
    listener.show(progress(at(9), run="two"))
    assert Shown.made[3].committed == [("query", 1), ("query", 9)]
    listener.show(progress(at(9), run="one"))
    assert len(Shown.made) == 7


def test_what_a_source_shows_itself_is_not_shown_twice(listener: Any) -> None:
    listener.show(progress(at(1, told_by_source=True), at(2, group="g")))
    assert [each.committed for each in Shown.made] == [[("g", 2)]]


def test_what_cannot_be_shown_is_told_and_ends_nothing(
    listener: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Shown.refused = {"query"}
    with caplog.at_level(logging.WARNING):
        listener.show(progress(at(1)))
    assert "cannot commit offsets of query query: nobody is there" in caplog.text
    Shown.refused = set()
    listener.show(progress(at(2)))
    assert Shown.made[0].committed == [("query", 2)]


def test_error_of_one_source_keeps_no_other_from_being_shown(listener: Any) -> None:
    Shown.refused = {"g"}
    listener.show(progress(at(1, group="g"), at(2, bootstrap="h:2")))
    assert [each.committed for each in Shown.made] == [[], [("query", 2)]]
    Shown.refused = set()
    listener.show(progress(at(3, group="g"), at(4, bootstrap="h:2")))
    assert [each.committed[-1] for each in Shown.made] == [("g", 3), ("query", 4)]


# --- the end of a program -------------------------------------------------------------------------


class Session:
    """A session at the end of its program."""

    def __init__(self, *names: str, stopped: bool = False) -> None:
        self.ended: list[str] = []
        active = [SimpleNamespace(stop=lambda name=name: self._stop(name)) for name in names]
        self.sparkContext = SimpleNamespace(_jsc=None if stopped else "runs")
        self.streams = SimpleNamespace(active=active, removeListener=self._remove)

    def _remove(self, listener: str) -> None:
        self.ended.append(f"without {listener}")

    def _stop(self, name: str) -> None:
        if name == "stuck":
            raise TimeoutError
        self.ended.append(name)

    def stop(self) -> None:
        self.ended.append("stopped")


@pytest.mark.parametrize(
    ("session", "gateway", "ended"),
    [
        (Session(), None, ["stopped"]),
        (Session("query", "stuck", "other"), None, ["query", "other", "stopped"]),
        (Session("query"), "1234", ["without listener"]),
        (Session(stopped=True), None, []),
        (Session("query", stopped=True), "1234", []),
    ],
)
def test_session_ends_with_its_program_and_without_callbacks(
    monkeypatch: pytest.MonkeyPatch, session: Session, gateway: str | None, ended: list[str]
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if gateway is not None:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", gateway)
    monkeypatch.setattr("headrace.spark.sessions.listener._attached", {session: "listener"})
    _end_all()
    assert session.ended == ended


def test_session_that_cannot_be_ended_keeps_no_other_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    broken, sound = Session(), Session()
    broken.stop = lambda: 1 / 0  # type: ignore[assignment, method-assign]
    monkeypatch.setattr("headrace.spark.sessions.listener._attached", {broken: "a", sound: "b"})
    _end_all()
    assert sound.ended == ["stopped"]

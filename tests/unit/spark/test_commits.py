"""Offsets committed beside a query: what is overtaken, what fails, what comes after."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.source import commits
from headrace.spark.source.commits import Commits
from headrace.spark.source.options import Fetching

T0 = TopicPartition("t", 0)


class Cluster:
    """A cluster that refuses in turn as it was told to."""

    made = 0
    closed = 0
    refusals: list[bool]
    unmade: int
    committed: list[tuple[str, int]]
    after: Callable[[], None] | None = None

    def __init__(self, *_: Any) -> None:
        if Cluster.unmade:
            Cluster.unmade -= 1
            raise SourceError("its file is away")
        Cluster.made += 1

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        Cluster.closed += 1

    def commit(self, group: str, ends: dict[TopicPartition, int]) -> None:
        if Cluster.refusals and Cluster.refusals.pop(0):
            raise SourceError("nobody is there")
        Cluster.committed.append((group, ends[T0]))
        if Cluster.after is not None:
            Cluster.after()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Commits:
    Cluster.made = Cluster.closed = Cluster.unmade = 0
    Cluster.refusals, Cluster.committed = [], []
    monkeypatch.setattr(commits, "Cluster", Cluster)
    found = Commits("h:1", Fetching())
    monkeypatch.setattr(found, "_thread", _NoThread())  # the test runs it itself
    return found


class _NoThread:
    def join(self, _: float) -> None:
        """Do nothing: no thread runs."""


def run(shown: Commits) -> None:
    """Run the thread's work to its end."""
    shown.close()
    shown._run()
    shown._closed = False


def test_offsets_that_are_overtaken_are_left_out(shown: Commits) -> None:
    for offset in (1, 2):
        shown.show("g", {T0: offset})
    shown.show("h", {T0: 3})
    run(shown)
    assert Cluster.committed == [("g", 2), ("h", 3)]
    assert (Cluster.made, Cluster.closed) == (1, 1)


def test_group_that_is_refused_keeps_no_other_from_being_shown(
    shown: Commits, caplog: pytest.LogCaptureFixture
) -> None:
    Cluster.refusals = [True]
    shown.show("g", {T0: 1})
    shown.show("h", {T0: 2})
    with caplog.at_level(logging.WARNING):
        run(shown)
    assert Cluster.committed == [("h", 2)]
    assert "cannot commit offsets of group g: nobody is there" in caplog.text


def test_cluster_that_could_not_be_made_is_tried_again(shown: Commits) -> None:
    Cluster.unmade = 1
    shown.show("g", {T0: 1})
    shown.show("h", {T0: 2})
    run(shown)
    assert Cluster.committed == [("h", 2)]
    shown.show("g", {T0: 3})
    run(shown)
    assert Cluster.committed == [("h", 2), ("g", 3)]


def test_offsets_that_were_shown_are_not_committed_again(shown: Commits) -> None:
    def meanwhile() -> None:
        Cluster.after = None
        shown._closed = False
        shown.show("h", {T0: 5})
        shown._closed = True

    Cluster.after = meanwhile  # another batch ends
    shown.show("g", {T0: 1})
    run(shown)
    assert Cluster.committed == [("g", 1), ("h", 5)]


def test_nothing_is_shown_once_it_is_closed(shown: Commits) -> None:
    shown.close()
    shown.show("g", {T0: 1})
    shown._run()
    assert (Cluster.made, Cluster.committed) == (0, [])

"""The begin of a pipeline's run: brokers that are away and wrong topics end it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from headrace.client.sync import connect, run
from headrace.pipeline.plan.missing_topics import missing_topic
from headrace.pipeline.project import load_project
from headrace.pipeline.run import client_file, runner
from headrace.pipeline.run.runner import RunRequest, run_pipeline
from headrace.pipeline.run.supervisor import Mode
from headrace.testing import BrokerThread

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.pipeline.run.event_log import Event

NOWHERE = "127.0.0.1:1"


class SparkStartsError(Exception):
    """The run has come to the start of Spark."""


def starting(*_: object) -> Any:
    raise SparkStartsError


def request(directory: Path, mode: Mode, bootstrap: str, events: list[Event]) -> RunRequest:
    (directory / "pipeline.toml").write_text('name = "shop"\n')
    return RunRequest(load_project(directory), bootstrap, {}, mode, events.append)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_session", starting)
    monkeypatch.setattr(client_file, "_SECONDS", 0.2)


@pytest.mark.parametrize("mode", [Mode.ONCE, Mode.UNTIL_IDLE])
def test_a_run_that_ends_by_itself_needs_a_broker_before_spark_starts(
    tmp_path: Path, mode: Mode
) -> None:
    events: list[Event] = []
    ending = run_pipeline(request(tmp_path, mode, NOWHERE, events))
    assert ending.code == 3
    assert ending.text.startswith(f"cannot connect to {NOWHERE}")
    assert "start one with: headrace serve" in ending.text
    assert [(event["event"], event.get("code")) for event in events] == [("run", None), ("end", 3)]


def test_a_continuous_run_waits_for_brokers_that_are_away(tmp_path: Path) -> None:
    with pytest.raises(SparkStartsError):
        run_pipeline(request(tmp_path, Mode.CONTINUOUS, NOWHERE, []))


def test_a_topic_that_does_not_exist_is_named_with_similar_topics(tmp_path: Path) -> None:
    with BrokerThread() as broker:
        broker.create_topics("sales")
        with connect(broker.bootstrap) as client:
            assert missing_topic(client, {"salse", "sales"}) == (
                "there is no topic salse; did you mean sales?"
            )
            assert missing_topic(client, {"q"}) == ("there is no topic q; see: headrace topic list")
            assert missing_topic(client, {"sales"}) is None
            assert "salse" not in run(client.metadata()).topics, "it is not created"
        for mode in Mode:
            asked = runner._Run(
                request(tmp_path, mode, broker.bootstrap, []), *[cast("Any", None)] * 4
            )
            assert asked._asked({"salse"}) == (4, "there is no topic salse; did you mean sales?")
            assert asked._asked({"sales"}) is None
        with pytest.raises(SparkStartsError):
            run_pipeline(request(tmp_path, Mode.ONCE, broker.bootstrap, []))

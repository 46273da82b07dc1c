"""Runs of one pipeline against each other and against their checkpoint, without a Spark session."""

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.client.producer import transactions
from headrace.client.producer.transactions import Writer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SinkError
from headrace.spark.sink import sink_task
from headrace.spark.sink.sink_driver import _begun
from headrace.spark.source.offsets import Position
from tests.spark.kit import Topics
from tests.spark.sink_kit import committed_rows, numbers_of
from tests.spark_kills.sink_story import SinkStory, _Context


@pytest.fixture
def story(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkStory:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    names = [topics.create(3) for _ in range(2)]
    return SinkStory(topics.bootstrap, names, tmp_path / f"p-{names[0]}", 1)


def begun(story: SinkStory) -> bytes:
    """What Spark sends to the tasks."""
    return pickle.dumps(story.writer())


def written(story: SinkStory, sent: bytes, numbers: range) -> Any:
    """One task's message."""
    return pickle.loads(sent).write(iter([story._rows(numbers)]))


def test_of_two_drivers_the_older_decides_nothing(story: SinkStory) -> None:
    numbers = story.plan()
    older = written(story, begun(story), numbers)
    newer = written(story, begun(story), numbers)
    with pytest.raises(SinkError, match=r"is not open any more|a newer run"):
        story.writer().commit([older], 0)
    story.writer().commit([newer], 0)
    assert numbers_of(story.bootstrap, *story.topics) == list(numbers)


def test_a_driver_that_was_overtaken_between_its_look_and_its_decision_decides_nothing(
    story: SinkStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = story.plan()
    older = written(story, begun(story), numbers)
    from headrace.spark.sink.sink_driver import SinkDriver

    look = SinkDriver._check_open

    def overtaken(driver: SinkDriver, writers: list[Writer], number: int) -> None:
        look(driver, writers, number)
        begun(story)

    monkeypatch.setattr(SinkDriver, "_check_open", overtaken)
    with pytest.raises(SinkError, match="a newer run of this pipeline has begun"):
        story.writer().commit([older], 0)
    assert committed_rows(story.bootstrap, story.topics[0]) == []


def test_a_repeated_batch_is_written_once_with_the_same_offsets_and_refused_with_others(
    story: SinkStory, tmp_path: Path
) -> None:
    numbers = story.plan()
    story.writer().commit([written(story, begun(story), numbers)], 0)
    again = written(story, begun(story), numbers)
    story.writer().commit([again], 0)
    assert numbers_of(story.bootstrap, *story.topics) == list(numbers)
    (story._place / "offsets" / "0").write_text("v1\n{}\nother")
    again = written(story, begun(story), numbers)
    with pytest.raises(SinkError, match="batch 0 was written from other offsets"):
        story.writer().commit([again], 0)


def test_tasks_of_a_decided_batch_write_nothing(
    story: SinkStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = story.plan()
    story.writer().commit([written(story, begun(story), numbers)], 0)
    monkeypatch.setattr(sink_task, "TaskContext", _Context(0))
    assert written(story, begun(story), numbers).writer is None
    monkeypatch.setattr(sink_task, "TaskContext", _Context(1))
    assert written(story, begun(story), numbers).writer is not None


def test_an_older_checkpoint_and_one_of_another_query_are_refused(story: SinkStory) -> None:
    for _ in range(2):
        numbers = story.plan()
        story.writer().commit([written(story, begun(story), numbers)], story.batch)
        story.batch, story.first = story.batch + 1, numbers.stop
    again = written(story, begun(story), range(9))
    with pytest.raises(SinkError, match="batch 0 is behind what was written"):
        story.writer().commit([again], 0)
    (story._place / "metadata").write_text('{"id":"another"}')
    with pytest.raises(SinkError, match="batch 1 of another query"):
        begun(story)


def test_a_lost_checkpoint_is_one_error_that_says_where_to_go_on_and_leaves_nothing_open(
    story: SinkStory,
) -> None:
    numbers = story.plan()
    end = Position(story.bootstrap, {TopicPartition("orders", 0): 120}).to_json()
    (story._place / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(end)}")
    sent = begun(story)
    story.writer().commit([written(story, sent, numbers)], 0)
    written(story, begun(story), numbers)  # of the batch in which everything was lost
    (story._place / "metadata").write_text('{"id":"a new one"}')
    _begun.clear()  # a new driver is a new process
    with pytest.raises(SinkError, match=r'a new name and startingOffsets={"orders":{"0":120}} to'):
        begun(story)
    with connect(story.bootstrap) as client:
        assert run(transactions.open_ids(client, story.writer()._options.prefix)) == []


@pytest.mark.parametrize("ended", ["committed", "aborted"])
def test_attempt_later_than_the_end_of_its_write_leaves_nothing_open(
    story: SinkStory, ended: str
) -> None:
    numbers = story.plan()
    sent = begun(story)
    message = written(story, sent, numbers)
    if ended == "committed":
        story.writer().commit([message], 0)
    else:
        story.writer().abort([message], 0)
    with pytest.raises(SinkError, match="comes too late"):
        written(story, sent, numbers)
    with connect(story.bootstrap) as client:
        assert run(transactions.open_ids(client, story.writer()._options.prefix)) == []


def test_a_transaction_that_is_gone_after_the_decision_is_an_error_and_not_silence(
    story: SinkStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = story.plan()
    message = written(story, begun(story), numbers)
    from headrace.spark.sink.sink_driver import SinkDriver

    finish = SinkDriver._finish

    def too_late(driver: SinkDriver, decision: Any) -> None:
        with connect(story.bootstrap) as client:
            (writer,) = decision.writers
            run(transactions.take_id(client, writer.transactional_id, 1000))
        finish(driver, decision)

    monkeypatch.setattr(SinkDriver, "_finish", too_late)
    with pytest.raises(SinkError, match="was decided, and 1 of its 1 transactions were aborted"):
        story.writer().commit([message], 0)
    monkeypatch.undo()
    with pytest.raises(SinkError, match="was decided, and 1 of its 1"):
        begun(story)  # until somebody has looked at it


def test_a_batch_whose_time_is_nearly_over_is_not_decided(
    story: SinkStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = written(story, begun(story), story.plan())
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 880)
    with pytest.raises(SinkError, match=r"only \d+ ms are left of the 900000 ms"):
        story.writer().commit([message], 0)


def test_aborting_leaves_what_was_decided_and_takes_the_rest(story: SinkStory) -> None:
    numbers = story.plan()
    message = written(story, begun(story), numbers)
    lost = written(story, begun(story), numbers)
    story.writer().abort([lost, None], 0)
    assert committed_rows(story.bootstrap, story.topics[0], committed=True) == []
    message = written(story, begun(story), numbers)
    story.writer().commit([message], 0)
    story.writer().abort([message], 0)  # Spark does so where commit raises
    assert numbers_of(story.bootstrap, *story.topics) == list(numbers)


def test_an_older_driver_that_aborts_lets_the_newer_one_decide(story: SinkStory) -> None:
    numbers = story.plan()
    older = written(story, begun(story), numbers)
    newer = written(story, begun(story), numbers)
    late = story.writer()
    with pytest.raises(SinkError, match="is not open any more"):
        late.commit([older], 0)
    late.abort([older], 0)  # as Spark does where commit raises
    story.writer().commit([newer], 0)
    assert numbers_of(story.bootstrap, *story.topics) == list(numbers)


def test_aborting_ends_what_attempts_left_open_that_gave_no_message(story: SinkStory) -> None:
    sent, numbers = begun(story), story.plan()
    written(story, sent, numbers)  # killed before Spark had its message
    story.writer().abort([written(story, sent, numbers), None], 0)
    with connect(story.bootstrap) as client:
        assert run(transactions.open_ids(client, story.writer()._options.prefix)) == []


def test_each_process_has_transactional_ids_of_its_own_and_as_many_as_a_write_has_tasks() -> None:
    ids = sink_task._WorkerIds()
    first = [ids.take("p.s.task-", "write 1") for _ in range(3)]
    second = [ids.take("p.s.task-", "write 2") for _ in range(3)]
    assert len(set(first)) == 3
    assert second == first
    assert not set(first) & {sink_task._WorkerIds().take("p.s.task-", "write 1")}

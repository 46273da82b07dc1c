"""How runs end: each error of a project, its data or its brokers has its code and one line."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.exit_codes import DATA_LOST
from headrace.pipeline.project import load_project
from headrace.pipeline.run.lock import holder_of
from headrace.pipeline.run.run_status import FAILED, STOPPED, state_of
from headrace.pipeline.run.stop_requests import request_stop
from headrace.pipeline.run.storage import Storage
from headrace.pipeline.run.supervisor import Ending, Mode
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records, make_project
from tests.spark.waiting import eventually

NOWHERE = "127.0.0.1:1"
COPY = """
@dp.table
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING"){more}
"""
PARSED = """
class Row(NamedTuple):
    id: int

def parse(value):
    if b'"x"' in value:
        raise hp.Unreadable("no number")
    return (1,)

@dp.table
def rows():
    return hp.topic("{topic}", hp.parser(parse, Row))
"""


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(1)


@pytest.fixture
def project(tmp_path: Path, bootstrap: str, spark: SparkSession, topic: str) -> Project:
    settings = "[profile.prod]\n[profile.dev]\n"
    text = COPY.format(topic=topic, more="")
    return make_project(tmp_path / "shop", bootstrap, spark, text, settings)


def test_a_users_exception_ends_the_run_with_function_line_batch_and_offsets(
    project: Project, topics: Topics, topic: str
) -> None:
    """Rule 27: one line, and no restart."""
    (project.directory / "lib").mkdir()
    (project.directory / "lib" / "names.py").write_text(
        "def shortened(name):\n    return name[:4 // (len(name) - 2)]\n"
    )
    more = '.select("id", F.udf(upper, "string")("name").alias("name"))'
    text = "def upper(name):\n    return shortened(name).upper()\n"
    project.write(f"from lib.names import shortened\n{text}" + COPY.format(topic=topic, more=more))
    topics.append(topic, 0, json_records(10, 2))
    assert project.run().code == 0
    topics.append(topic, 0, json_records(5, 3))
    ending = project.run(Mode.CONTINUOUS)
    assert ending.code == 1
    assert ending.text == (
        f"rows: shortened (lib/names.py:2): ZeroDivisionError: integer division or modulo by zero, "
        f"batch 1 ({topic}-0@2..4)"
    )
    assert [event["state"] for event in project.of("flow")] == ["started", "failed"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("(1, 2)", "the parser returned 2 values for 1 columns"),
        ("('one',)", "the parser returned 'one' for column id, which is no int64"),
    ],
)
def test_a_parser_that_returns_no_row_is_an_error_of_the_project(
    project: Project, topics: Topics, topic: str, result: str, text: str
) -> None:
    """It is no fault of the record, which is not quarantined."""
    project.write(PARSED.format(topic=topic).replace("(1,)", result))
    topics.append(topic, 0, [Record(0, TIME_MS, b"k", b'{"id": "x"}'), *json_records(1, 1)])
    ending = project.run()
    assert (ending.code, ending.text) == (1, f"rows: {topic}-0@1: {text}")
    assert project.parquet("rows") == []


def test_a_topic_that_does_not_exist_is_not_found(project: Project) -> None:
    project.write(COPY.format(topic="no-such-topic", more=""))
    ending = project.run()
    assert ending.code == 4
    assert ending.text.startswith("there is no topic no-such-topic; ")
    assert project.of("flow") == [], "no query was started"


def test_records_deleted_before_they_were_read_end_the_run(
    project: Project, topics: Topics, topic: str
) -> None:
    """Rule 16: exit 12 with the offsets; never a stall."""
    topics.append(topic, 0, json_records(0, 3))
    assert project.run().code == 0
    topics.append(topic, 0, json_records(3, 5))
    topics.expire(topic)
    from headrace.model.nouns import TopicPartition

    assert eventually(lambda: topics.earliest(TopicPartition(topic, 0)) == 8)
    topics.keep(topic)
    ending = project.run(Mode.CONTINUOUS)
    assert ending.code == DATA_LOST
    assert f"{topic}-0" in ending.text
    assert "3" in ending.text
    assert "failOnDataLoss" not in ending.text
    flow = project.of("flow")[0]
    assert f"run with --accept-loss {flow['flow']} to go on without them" in ending.text
    assert project.run().code == DATA_LOST, "without the decision the next run ends so, too"
    assert project.run(accept_loss=frozenset({"nothing"})).text.startswith(
        "--accept-loss nothing: no such flow; there are "
    )
    topics.append(topic, 0, json_records(8, 1))
    assert project.run(accept_loss=frozenset({flow["flow"]})).code == 0
    assert [row["id"] for row in project.parquet("rows")] == [0, 1, 2, 8]
    assert project.run().code == 0, "the loss is accepted once"


@pytest.mark.parametrize("mode", [Mode.ONCE, Mode.UNTIL_IDLE])
def test_brokers_that_are_away_end_a_run_that_ends(project: Project, mode: Mode) -> None:
    ending = project.run(mode, bootstrap=NOWHERE)
    assert ending.code == 3
    assert ending.text.startswith(f"cannot connect to {NOWHERE}: connection refused; is the broker")


def use_in_thread(spark: SparkSession) -> None:
    """Make the session this thread's: Spark looks up data sources in a thread's active session."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def test_a_continuous_run_waits_for_brokers_until_it_is_stopped(project: Project) -> None:
    """Rule 27: back-off, seen in the status; a request in the storage stops it (rule 15)."""
    endings: list[Ending] = []
    storage = Storage(project.storage)

    def run() -> None:
        use_in_thread(project.spark)
        endings.append(project.run(Mode.CONTINUOUS, bootstrap=NOWHERE))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        deadline = time.monotonic() + 120
        while len([each for each in project.of("flow") if each["state"] == "waiting"]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        holder = holder_of(storage.lock)
        assert holder is not None
        state = state_of("shop", None, storage)
        assert (state.state, state.pid) == ("running", holder.pid)
        assert state.flows["rows"].state in ("waiting", "started")
        request_stop(storage.stop_request, holder.run, "db8")
    finally:
        thread.join(120)
    assert endings == [(0, "stopped by headrace pipeline stop on db8")]
    assert not storage.stop_request.exists()
    assert state_of("shop", None, storage).state == STOPPED


def test_wrong_declarations_start_no_query(project: Project, topic: str) -> None:
    project.write(COPY.format(topic=topic, more='.where("nmae > 1")'))
    ending = project.run()
    assert ending.code == 2
    assert "nmae" in ending.text
    assert project.of("flow") == []
    assert not (project.storage / "_checkpoints").exists()
    assert state_of("shop", None, Storage(project.storage)).state == FAILED


def test_a_profile_does_not_write_the_storage_of_another(
    project: Project, topics: Topics, topic: str
) -> None:
    """Rule 28: the mark at the storage root refuses it before a query starts."""
    topics.append(topic, 0, json_records(0, 1))
    assert project.run(profile="prod").code == 0
    before = {path: path.stat().st_mtime_ns for path in (project.storage / "rows").rglob("*")}
    with pytest.raises(DeclarationError, match="is written by pipeline shop with profile prod"):
        project.run(profile="dev")
    assert before == {
        path: path.stat().st_mtime_ns for path in (project.storage / "rows").rglob("*")
    }
    assert project.events == []


def test_status_and_validate_change_nothing(
    project: Project, topics: Topics, topic: str, spark: SparkSession
) -> None:
    """Rule 23: a snapshot of the project, the storage and the topics before and after."""
    from headrace.pipeline.load import loaded
    from headrace.pipeline.validate import findings_of

    topics.append(topic, 0, json_records(0, 1))
    assert project.run().code == 0

    def snapshot() -> dict[Path, tuple[int, int]]:
        return {
            path: (path.stat().st_mtime_ns, path.stat().st_size)
            for path in project.directory.rglob("*")
        }

    before = snapshot()
    with loaded(load_project(project.directory)) as found:
        assert findings_of(spark, found)[0] == []
    state = state_of("shop", None, Storage(project.storage))
    assert (state.state, state.flows["rows"].records, state.lag) == ("ended", 1, 0)
    assert snapshot() == before

"""Runs with malformed records: each is in the sink or in the quarantine, once."""

import json
import shutil
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.project import load_project
from headrace.pipeline.run.flow_quarantine import FlowQuarantine
from headrace.pipeline.run.run_status import state_of
from headrace.pipeline.run.storage import Storage
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records
from tests.spark.pipeline.sinks import declare, ids_of
from tests.spark.sink_kit import committed_rows

MALFORMED = b'{"id": "x"}'


def malformed(number: int) -> list[Record]:
    return [Record(0, TIME_MS, b"bad", MALFORMED) for _ in range(number)]


def quarantined(project: Project, topic: str) -> list[dict[str, str]]:
    """The added headers of the quarantined records."""
    return [
        {header["key"]: header["value"].decode() for header in row["headers"]}
        for row in committed_rows(project.bootstrap, f"{topic}.quarantine")
    ]


def offsets(project: Project, topic: str) -> list[int]:
    return sorted(int(added["headrace.offset"]) for added in quarantined(project, topic))


def listed(project: Project, topic: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    capsys.readouterr()
    names = ["pipeline", "quarantine", "list", topic, "-b", project.bootstrap, "--json"]
    assert command(names) == 0
    return list(json.loads(capsys.readouterr().out))


def test_malformed_records_are_quarantined_once_and_listed(
    project: Project, sink: str, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(project, sink, topic, "")
    topics.append(topic, 0, [*json_records(0, 2), *malformed(1), *json_records(2, 1)])
    assert project.run() == (0, "all records are processed")
    assert ids_of(project, sink, topic) == [0, 1, 2]
    (added,) = quarantined(project, topic)
    assert added["headrace.offset"] == "2"
    assert (added["headrace.pipeline"], added["headrace.flow"]) == (f"shop-{topic}", "rows")
    (batch,) = project.of("batch")
    assert (batch["records"], batch["refused"]) == (3, {topic: 1})
    topics.append(topic, 0, [*malformed(2), *json_records(3, 1)])
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 1, 2, 3]
    assert offsets(project, topic) == [2, 4, 5]
    (group,) = listed(project, topic, capsys)
    assert (group["flow"], group["state"], group["records"]) == ("rows", "waiting", 3)
    loaded = load_project(project.directory, None)
    storage = Storage.of(loaded)
    flow = state_of("shop", None, storage).flows["rows"]
    assert (flow.records, flow.refused) == (1, 2), "status is of the newest run"
    assert list(storage.spool.rglob("*.arrow")) == []


def test_a_repeated_batch_quarantines_nothing_again(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """A kill between the sink's commit and Spark's: sink and quarantine have the batch."""
    declare(project, sink, topic, "")
    topics.append(topic, 0, [*json_records(0, 2), *malformed(1)])
    assert project.run().code == 0
    without_commit(project, sink, 0)
    topics.append(topic, 0, malformed(1))
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 1]
    assert offsets(project, topic) == [2, 3]


def test_too_many_malformed_records_end_the_run_before_the_sink_has_any(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 8: exit 11; table, quarantine and checkpoint are unchanged, and it fails alike again."""
    declare(project, sink, topic, "")
    topics.append(topic, 0, [*json_records(0, 400), *malformed(700)])
    for _ in range(2):
        ending = project.run()
        assert ending.code == 11
        assert ending.text.startswith("rows: too many records are refused: 700 of the last 1,100")
        assert "These may be records of another schema" in ending.text
        assert "valueSchema" not in ending.text
        assert ids_of(project, sink, topic) == []
        assert quarantined(project, topic) == []


@pytest.mark.parametrize("sink", ["delta"])
def test_two_flows_quarantine_what_each_refuses(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Flows of one topic share a quarantine topic and nothing else."""
    project.write(f"""
@dp.table(format="{sink}")
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL")

@dp.table(format="parquet")
def named():
    return hp.topic("{topic}", "name STRING NOT NULL")
""")
    nameless = [Record(0, TIME_MS, b"k", b'{"id": 7}')]
    topics.append(topic, 0, [*json_records(0, 1), *malformed(1), *nameless])
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 7]
    assert [row["name"] for row in project.parquet("named")] == ["n0"]
    found = sorted(
        (added["headrace.flow"], added["headrace.offset"]) for added in quarantined(project, topic)
    )
    assert found == [("named", "1"), ("named", "2"), ("rows", "1")]
    refused = {batch["flow"]: batch["refused"] for batch in project.of("batch")}
    assert refused == {"rows": {topic: 1}, "named": {topic: 2}}


def replayed(topic: str, project: Project, capsys: pytest.CaptureFixture[str]) -> str:
    """Replay the quarantine; return the lines that the command prints."""
    capsys.readouterr()
    assert command(["pipeline", "quarantine", "replay", topic, "-b", project.bootstrap]) == 0
    return capsys.readouterr().out


def declare_fitting(project: Project, sink: str, topic: str) -> None:
    """Declare columns that MALFORMED fits, too."""
    declare(project, sink, topic, "")
    file = project.directory / "transformations" / "all.py"
    columns = f'hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")'
    fitting = f'hp.topic("{topic}", "id DECIMAL(18,0) NOT NULL, name STRING")'
    text = file.read_text()
    assert columns in text
    file.write_text(text.replace(columns, f'{fitting}.withColumn("id", F.col("id").cast("long"))'))


def without_commit(project: Project, sink: str, batch: int) -> None:
    """Let the next run repeat a batch, as after a kill between the sink's commit and Spark's."""
    target = "copies" if sink == "topic" else "rows"
    commits = project.storage / "_checkpoints" / target / "rows" / "0" / "commits"
    for name in (str(batch), f".{batch}.crc"):
        (commits / name).unlink(missing_ok=True)


def test_a_replayed_record_is_in_the_sink_once_at_its_first_position(
    project: Project, sink: str, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(project, sink, topic, "")
    bad = malformed(1)[0]._replace(value=b'{"id": "77"}')
    topics.append(topic, 0, [*json_records(0, 2), bad, *json_records(2, 1)])
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 1, 2]
    declare_fitting(project, sink, topic)
    retry = f"shop-{topic}.{topic}.retry"
    sent = f"1 sent to {retry} for flow rows (once, in one transaction): {topic}-0@2\n"
    assert replayed(topic, project, capsys).startswith(sent)
    assert replayed(topic, project, capsys) == ""
    assert project.run() == (0, "all records are processed")
    (batch,) = project.of("batch")
    assert (batch["records"], "refused" in batch) == (1, False)
    assert ids_of(project, sink, topic) == [0, 1, 2, 77]
    if sink == "parquet":
        rows = {row["id"]: row for row in project.parquet("rows")}
        assert (rows[77]["_partition"], rows[77]["_offset"]) == (0, 2)
        assert int(rows[77]["_timestamp"].timestamp() * 1000) == TIME_MS
    without_commit(project, sink, 1)
    topics.append(topic, 0, json_records(4, 1))
    for _ in range(2):
        assert project.run().code == 0
        assert ids_of(project, sink, topic) == [0, 1, 2, 4, 77]
    assert offsets(project, topic) == [2]


@pytest.mark.parametrize("sink", ["delta"])
def test_a_replayed_record_that_is_refused_again_is_quarantined_as_the_next_attempt(
    project: Project, sink: str, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(project, sink, topic, "")
    topics.append(topic, 0, [*malformed(1), *json_records(1, 1)])
    assert project.run().code == 0
    for attempt in (2, 3):
        assert replayed(topic, project, capsys).startswith("1 sent to ")
        assert project.run().code == 0
        (batch,) = project.of("batch")
        assert (batch["records"], batch["refused"]) == (0, {topic: 1})
        found = [
            (added["headrace.attempt"], added["headrace.offset"])
            for added in quarantined(project, topic)
        ]
        assert sorted(found) == [(str(number), "0") for number in range(1, attempt + 1)]
    assert ids_of(project, sink, topic) == [1]


@pytest.mark.parametrize("sink", ["delta"])
def test_a_checkpoint_from_before_the_retry_topic_reads_all_of_it(
    project: Project,
    sink: str,
    topics: Topics,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run of the version before, its records replayed, then a run of this one."""
    declare(project, sink, topic, "")
    bad = malformed(1)[0]._replace(value=b'{"id": "77"}')
    topics.append(topic, 0, [bad, *json_records(1, 1)])
    with monkeypatch.context() as before:
        options = FlowQuarantine.source_options

        def without_retries(quarantine: FlowQuarantine) -> dict[str, str]:
            given = options(quarantine)
            return {name: given[name] for name in given if name != "quarantineRetry"}

        before.setattr(FlowQuarantine, "source_options", without_retries)
        assert project.run().code == 0
        (batch,) = project.of("batch")
        assert list(batch["offsets"]) == [f"{topic}-0"]
    declare_fitting(project, sink, topic)
    assert replayed(topic, project, capsys).startswith("1 sent to ")
    topics.append(topic, 0, json_records(2, 1))
    for _ in range(2):
        assert project.run().code == 0
        assert ids_of(project, sink, topic) == [1, 2, 77]


@pytest.mark.parametrize("sink", ["delta"])
def test_a_new_version_does_not_read_earlier_replays_again(
    project: Project, sink: str, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads the topic from its beginning, and so the replayed record at its first position."""
    declare(project, sink, topic, "")
    bad = malformed(1)[0]._replace(value=b'{"id": "77"}')
    topics.append(topic, 0, [bad, *json_records(1, 1)])
    assert project.run().code == 0
    declare_fitting(project, sink, topic)
    replayed(topic, project, capsys)
    assert project.run().code == 0
    shutil.rmtree(project.storage)
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [1, 77]


@pytest.mark.parametrize("sink", ["delta"])
def test_a_replay_of_what_the_version_before_has_left_doubles_nothing(
    project: Project, sink: str, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new version has read the record itself; what it refuses itself is replayed to it."""
    declare(project, sink, topic, "")
    bad = malformed(1)[0]._replace(value=b'{"id": "77"}')
    topics.append(topic, 0, [bad, *json_records(1, 1), *malformed(1)])
    assert project.run().code == 0
    shutil.rmtree(project.storage)
    declare_fitting(project, sink, topic)
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [1, 77]
    assert offsets(project, topic) == [0, 2, 2]
    assert replayed(topic, project, capsys).startswith("3 sent to ")
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [1, 77]
    assert offsets(project, topic) == [0, 2, 2, 2]


@pytest.mark.parametrize("sink", ["delta"])
def test_records_of_aborted_transactions_are_not_read(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic, "")
    topics.append(topic, 0, json_records(0, 1))
    client = topics.client
    for number, commit in ((1, False), (2, True)):
        writer = run(transactions.take_id(client, f"t-{topic}", 60_000))
        producer = Producer(client)
        producer.write_as(*writer)
        run(transactions.add_partitions(client, writer, {TopicPartition(topic, 0)}))
        run(producer.send(topic, b'{"id": %d}' % number, timestamp=TIME_MS, partition=0))
        run(producer.flush())
        run(transactions.end(client, writer, commit=commit))
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 2]

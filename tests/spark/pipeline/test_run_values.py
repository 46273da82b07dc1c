"""Runs on records without a value and on empty ones, and of two profiles beside each other."""

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.client.sync import connect, run
from headrace.pipeline.run.run_status import state_of
from headrace.pipeline.run.storage import Storage
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records, make_project
from tests.spark.pipeline.sinks import TOPIC, declare, ids_of
from tests.spark.sink_kit import committed_rows

PROFILES = '[profile.dev]\nstorage = "dev"\n[profile.prod]\nstorage = "prod"\n'


def test_a_null_value_is_a_row_and_an_empty_one_is_refused(
    project: Project, topics: Topics, topic: str
) -> None:
    """Rule 11: null is a delete or a heartbeat; an empty value is no JSON."""
    project.write(f"""
@dp.table
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING", meta="key")
""")
    values = [b'{"id": 1}', None, b"", b"null", b"{}"]
    topics.append(topic, 0, [Record(0, TIME_MS, b"k", value) for value in values])
    assert project.run().code == 0
    rows = [(row["id"], row["_offset"], row["_key"]) for row in project.parquet("rows")]
    assert rows == [(1, 0, b"k"), (None, 1, b"k")]
    (batch,) = project.of("batch")
    assert batch["refused"] == {topic: 3}
    refused = committed_rows(project.bootstrap, f"{topic}.quarantine")
    assert sorted(row["value"] for row in refused) == [b"", b"null", b"{}"]


def test_two_profiles_write_one_topic_by_names_of_their_own(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics, topic: str
) -> None:
    """Rule 28: neither run fences the other, and what they leave carries the profile."""
    topics.create(1, f"{topic}-copies")
    name = f"shop-{topic}"
    project = make_project(tmp_path / "shop", bootstrap, spark, "", PROFILES, name=name)
    table = '\n@dp.table\ndef kept():\n    return hp.topic("{topic}", "id BIGINT")\n'
    project.write((TOPIC + table).format(topic=topic, checks=""))
    wrong = Record(0, TIME_MS, b"k", b'{"id": "x"}')
    for first in (0, 2):
        topics.append(topic, 0, [*json_records(first, 2), wrong])
        for profile in ("dev", "prod"):
            assert project.run(profile=profile).code == 0, project.events
    assert ids_of(project, "topic", topic) == [0, 0, 1, 1, 2, 2, 3, 3], "once by each profile"
    for profile in ("dev", "prod"):
        storage = project.directory / profile
        assert list((storage / "kept").glob("[!_]*.parquet"))
        assert f'"profile": "{profile}"' in (storage / "_pipeline" / "profile").read_text()
    assert not project.storage.exists()
    with connect(bootstrap) as client:
        names = set(run(client.metadata()).topics)
    own = {each for each in names if each.startswith(name)}
    assert own
    assert all(each.startswith((f"{name}-dev.", f"{name}-prod.")) for each in own), own
    owners = {
        bytes(header["value"]).decode()
        for row in committed_rows(bootstrap, f"{topic}.quarantine")
        for header in row["headers"]
        if header["key"] == "headrace.pipeline"
    }
    assert owners == {f"{name}-dev", f"{name}-prod"}


def test_keys_without_a_column_are_counted_by_name(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Drift is seen before it is missed: in the batch's event and in the status, each key once."""
    topics.grow(topic, 2)
    declare(project, sink, topic, "")
    topics.append(topic, 0, [*json_records(0, 3, city="x"), *json_records(3, 1, zip=1, city="y")])
    topics.append(topic, 1, json_records(4, 2, zip=1))
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 1, 2, 3, 4, 5]
    (batch,) = project.of("batch")
    assert batch["unknown_keys"] == {topic: {"city": 4, "zip": 3}}
    storage = Storage(project.storage)
    state = state_of(f"shop-{topic}", None, storage)
    assert state.flows["rows"].unknown_keys == {"city": 4, "zip": 3}
    assert [file for file in (storage.own / "unknown_keys").rglob("*") if file.is_file()] == []
    topics.append(topic, 0, json_records(6, 2))
    assert project.run().code == 0
    (batch,) = project.of("batch")
    assert "unknown_keys" not in batch

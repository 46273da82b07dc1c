"""`headrace pipeline init`: what it writes runs, from a template, a topic or a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.cli.main import run as command
from tests.spark.kit import Topics
from tests.spark.pipeline.run_projects import Project, json_records

Init = Callable[..., Project]


@pytest.fixture
def init(
    tmp_path: Path, bootstrap: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> Init:
    def make(*words: str) -> Project:
        shop = tmp_path / "shop"
        assert command(["pipeline", "init", str(shop), *words]) == 0, capsys.readouterr()
        return Project(shop, bootstrap, spark, [])

    return make


def test_the_template_runs(init: Init, topics: Topics) -> None:
    project = init()
    if not topics.created("orders"):
        pytest.skip("another test has the topic")
    value = {"id": 1, "customer": "c", "amount": 2.5, "at": "2026-11-28T10:31:00Z"}
    records = [
        record._replace(value=json.dumps(value | {"amount": amount}).encode())
        for record, amount in zip(json_records(0, 3), (2.5, -1, None), strict=True)
    ]
    topics.append("orders", 0, records)
    try:
        assert project.run().code == 0, project.events
    finally:
        topics.delete("orders")
    table = DeltaTable(str(project.storage / "orders")).to_pyarrow_table()
    assert table["amount"].to_pylist() == [2.5]


def test_a_topics_columns_are_inferred_and_run(init: Init, topics: Topics, bootstrap: str) -> None:
    topic = topics.create(2)
    topics.append(topic, 0, json_records(0, 3, at="2026-11-28T10:31:00Z", tags=["a"]))
    topics.append(topic, 1, json_records(3, 3, at=None, more={"x": 1.5}))
    project = init("--from-topic", topic, "-b", bootstrap)
    assert project.run().code == 0, project.events
    (table,) = [path for path in project.storage.iterdir() if not path.name.startswith("_")]
    rows = DeltaTable(str(table)).to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == list(range(6))
    assert rows["tags"].to_pylist()[0] == ["a"]
    assert rows["more"].to_pylist()[5] == {"x": 1.5}


@pytest.mark.parametrize("kind", ["json", "text"])
def test_a_files_columns_are_inferred_and_run(
    init: Init, tmp_path: Path, bootstrap: str, topics: Topics, kind: str
) -> None:
    lines = {
        "json": '{"status": 200, "path": "/a"}\n\n{"status": 404}\n',
        "text": "GET /a 200\r\nGET /b 404\n",
    }
    name = f"web {kind}.log"
    (tmp_path / name).write_text(lines[kind])
    project = init("--from-file", str(tmp_path / name))
    topic = f"web_{kind}"
    topics.create(1, topic)
    sent = lines[kind].replace("\n\n", "\n")
    (tmp_path / "sent").write_text(sent)
    assert command(["produce", topic, str(tmp_path / "sent"), "-b", bootstrap]) == 0
    assert project.run().code == 0, project.events
    rows = DeltaTable(str(project.storage / topic)).to_pyarrow_table().sort_by("_offset")
    if kind == "json":
        assert rows["status"].to_pylist() == [200, 404]
        assert rows["path"].to_pylist() == ["/a", None]
    else:
        assert rows["line"].to_pylist() == ["GET /a 200", "GET /b 404"]


def test_a_combined_log_has_the_columns_of_a_request(
    init: Init, tmp_path: Path, bootstrap: str, topics: Topics
) -> None:
    line = '192.0.2.7 - - [20/Nov/2026:19:04:43 +0000] "GET /a HTTP/1.1" 200 138 "-" "Bot/1.0"'
    file = tmp_path / "access_combined.log"
    file.write_text(f"{line}\n{line.replace('200', '404')}\n")
    project = init("--from-file", str(file))
    topics.create(1, "access_combined")
    assert command(["produce", "access_combined", str(file), "-b", bootstrap]) == 0
    assert project.run().code == 0, project.events
    table = DeltaTable(str(project.storage / "access_combined")).to_pyarrow_table()
    assert sorted(table["status"].to_pylist()) == [200, 404]
    assert {str(day) for day in table["at_day"].to_pylist()} == {"2026-11-20"}


def test_a_json_log_with_damaged_lines_is_typed_and_quarantined(
    init: Init,
    tmp_path: Path,
    bootstrap: str,
    topics: Topics,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [f'{{"status": {200 + number % 3}}}' for number in range(100)]
    lines[50], lines[98] = lines[50][:7], '{"status": "ok"}'
    file = tmp_path / "damaged_json.log"
    file.write_text("\n".join(lines) + "\n")
    project = init("--from-file", str(file))
    assert "2 of the 100 lines looked at do not fit the columns" in capsys.readouterr().err
    topics.create(1, "damaged_json")
    assert command(["produce", "damaged_json", str(file), "-b", bootstrap]) == 0
    assert project.run().code == 0, project.events
    assert DeltaTable(str(project.storage / "damaged_json")).to_pyarrow_table().num_rows == 98
    (batch,) = project.of("batch")
    assert batch["refused"] == {"damaged_json": 2}


def test_nothing_to_infer_from_is_an_error(
    tmp_path: Path, bootstrap: str, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").touch()
    shop = str(tmp_path / "shop")
    assert command(["pipeline", "init", shop, "--from-file", str(tmp_path / "empty")]) == 1
    assert "no lines to infer columns from" in capsys.readouterr().err
    topic = topics.create(1)
    words = ["pipeline", "init", shop, "-b", bootstrap, "--from-topic"]
    assert command([*words, topic]) == 1
    assert command([*words, "no-such-topic"]) == 4
    assert command([*words, topic, "--from-file", "x"]) == 2
    assert not (tmp_path / "shop").exists()

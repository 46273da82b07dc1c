"""Sessions that the user starts, in an environment that is not activated: the format is found."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.sessions import register
from headrace.spark.sessions.listener import attach
from headrace.spark.sessions.python import worker_python
from tests.spark.kit import Topics
from tests.spark.waiting import eventually

PLAIN = """
import sys
from pyspark.sql import SparkSession
{before}
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
def read(how):
    reader = how.format("headrace").option("kafka.bootstrap.servers", sys.argv[1])
    return reader.option("subscribe", sys.argv[2]).option("startingOffsets", "earliest").load()
{after}
spark.stop()
"""
ATTACHED = """
try:
    read(spark.read)
except Exception as error:
    print("not found:", "DATA_SOURCE_NOT_FOUND" in str(error))
import headrace.spark
print("imported:", read(spark.read).count())
headrace.spark.attach(spark)
headrace.spark.attach(spark)
print("attached:", read(spark.read).count())
sources = spark._jsparkSession.sessionState().dataSourceManager()
variables = sources.lookupDataSource("headrace").dataSourceCls().envVars()
before = set(variables)
stream = read(spark.readStream).writeStream.format("noop").queryName(sys.argv[3])
stream = stream.option("checkpointLocation", sys.argv[4]).trigger(availableNow=True)
stream.start().awaitTermination()
same = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").prefix).first()
print("udfs:", same == sys.prefix)
print("variables added:", set(variables) - before)
"""


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    unwanted = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment["PATH"] = "/usr/bin:/bin"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


def test_attach_makes_the_format_known_to_a_session_that_runs(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    name = f"own-{topic}"
    program = PLAIN.format(before="", after=ATTACHED)
    done = run(program, topics.bootstrap, topic, name, str(tmp_path / "checkpoint"))
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("\n")
    assert said[:4] == ["not found: True", "imported: 30", "attached: 30", "udfs: True"]
    # A query that adds one while another's task is serialized makes that one fail.
    assert said[4] == "variables added: set()"
    assert eventually(lambda: topics.committed(name) == {TopicPartition(topic, 0): 30})


@pytest.mark.slow
def test_an_import_before_the_session_is_enough(topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    program = PLAIN.format(
        before="import headrace.spark", after='print("read:", read(spark.read).count())'
    )
    done = run(program, topics.bootstrap, topic)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "read: 30"


def test_a_connect_session_is_told_what_to_do() -> None:
    connect: Any = SimpleNamespace(client=None)
    with pytest.raises(SourceError, match="start the server with PYSPARK_PYTHON set to a Python"):
        attach(connect)


class Context:
    """As much of a SparkContext as `register` looks at."""

    def __init__(self, master: str, python: str = "python3", configured: bool = False) -> None:
        self.master, self.pythonExec, self.configured = master, python, configured
        self.environment: dict[str, str] = {}

    def getConf(self) -> Any:  # noqa: N802
        return SimpleNamespace(contains=lambda _: self.configured)


@pytest.mark.parametrize(
    ("context", "variable", "ours"),
    [
        (Context("local[2]"), None, True),
        (Context("spark://h:7077"), None, False),
        (Context("local[2]", python="/opt/python"), None, False),
        (Context("local[2]", configured=True), None, False),
        (Context("local[2]"), "python3", False),
    ],
)
def test_a_python_that_was_chosen_and_a_clusters_stay(
    context: Context, variable: str | None, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    before = context.pythonExec
    registered: list[Any] = []
    spark: Any = SimpleNamespace(
        _jsparkSession=None,
        sparkContext=context,
        dataSource=SimpleNamespace(register=registered.append),
    )
    register.register(spark, listened=True)
    assert (context.pythonExec == worker_python()) is ours
    assert ours or context.pythonExec == before
    assert [source.name() for source in registered] == ["headrace"]


@pytest.mark.parametrize("started_by_spark", ["SPARK_ENV_LOADED", "PYSPARK_GATEWAY_PORT"])
def test_an_import_chooses_no_python_where_spark_started_this_one(
    started_by_spark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register, "_running_session", lambda: None)
    monkeypatch.setenv(started_by_spark, "1")
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")
    register.prepare()
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.delenv(started_by_spark)
    register.prepare()
    assert os.environ["PYSPARK_PYTHON"] == worker_python()
    monkeypatch.setenv("PYSPARK_PYTHON", "python9")
    register.prepare()
    assert os.environ["PYSPARK_PYTHON"] == "python9"

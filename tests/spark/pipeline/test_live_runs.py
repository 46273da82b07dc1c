"""The command `headrace pipeline` in processes of its own: locks, stops, kills, other machines."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.pipeline.run.event_log import events_of
from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.spark.pipeline import live
from tests.spark.pipeline.run_projects import json_records, make_project
from tests.spark.standalone import StandaloneCluster

pytestmark = long_only


def test_a_run_holds_its_pipeline_until_it_is_stopped(
    shop: Path, bootstrap: str, topics: Topics, live_topic: str
) -> None:
    """Rules 14 and 15: the second run gets 13 at once; `stop` ends the first after its batch."""
    topics.append(live_topic, 0, json_records(0, 10))
    first = live.start(*live.words(shop, bootstrap))
    live.wait_for(lambda: live.events(shop / "data", "batch") >= 2, first)
    second = live.run(*live.words(shop, bootstrap, "--once"))
    assert second.code == 13
    assert f"pid {first.pid}" in second.err
    assert len(list((shop / "data" / "_pipeline" / "runs").glob("*.jsonl"))) == 1
    status = live.run("status", str(shop), "--json")
    (state,) = json.loads(status.out)
    assert (status.code, state["state"], state["pid"]) == (0, "running", first.pid)
    assert live.run("stop", str(shop)).code == 0
    ended = live.finish(first)
    assert (ended.code, ended.err) == (0, "")
    end, *tables = ended.out.splitlines()[-3:]
    assert end.endswith("stopped by SIGTERM")
    assert tables == [f"  table {name}: {shop / 'data' / name}" for name in ("copies", "rows")]
    assert live.ids(shop) == live.expected(10)
    (log,) = (shop / "data" / "_pipeline" / "runs").glob("*.jsonl")
    assert list(events_of(log))[-1]["code"] == 0
    assert live.run("status", str(shop)).code == 0


def java_of(pid: int) -> int:
    """Return the id of Spark's Java process below a process."""
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if Path(f"/proc/{child}/comm").read_text().strip() == "java":
            return child
    raise AssertionError(f"{pid} has started no Java process")


@pytest.mark.parametrize("first", [None, signal.SIGTERM])
def test_run_whose_java_process_is_killed_ends_with_one_sentence(
    shop: Path, bootstrap: str, topics: Topics, live_topic: str, first: signal.Signals | None
) -> None:
    """It ends as it would have: failed, or stopped; the next run repeats what was interrupted."""
    topics.append(live_topic, 0, json_records(0, 10))
    process = live.start(*live.words(shop, bootstrap))
    live.wait_for(partial(live.more_batches, shop, 2), process)
    java = java_of(process.pid)
    if first is not None:
        process.send_signal(first)
    began = time.monotonic()
    os.kill(java, signal.SIGKILL)
    ended = live.finish(process)
    assert time.monotonic() - began < 60
    if first is None:
        assert ended.code == 1
        assert ended.err.count("\n") == 1, ended.err
        assert "Spark's Java process has ended" in ended.err
    else:
        assert ended.err == "", ended.err
        assert ended.code == 0
        assert ended.out.splitlines()[-3].endswith("stopped by SIGTERM")
    topics.append(live_topic, 1, json_records(10, 5))
    assert live.run(*live.words(shop, bootstrap, "--once")).code == 0
    assert live.ids(shop) == live.expected(15)


def test_two_runs_without_a_lock_write_each_row_once(
    shop: Path, bootstrap: str, topics: Topics, live_topic: str
) -> None:
    """Rule 14: the lock's file is deleted and a second run starts: a batch counts once."""
    topics.append(live_topic, 0, json_records(0, 10))
    first = live.start(*live.words(shop, bootstrap))
    live.wait_for(lambda: live.events(shop / "data", "batch") >= 2, first)
    (shop / "data" / "_pipeline" / "lock").unlink()
    second = live.start(*live.words(shop, bootstrap))
    count = 10
    for _ in range(3):
        topics.append(live_topic, count // 10 % 2, json_records(count, 10))
        count += 10
        least = live.events(shop / "data", "batch") + 1
        live.wait_for_any(partial(live.more_batches, shop, least), first, second)
    for process in (first, second):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in (first, second):
        ended = live.finish(process)
        assert ended.code in (0, 1), ended
    assert live.run(*live.words(shop, bootstrap, "--once")).code == 0
    assert live.ids(shop) == live.expected(count)


def test_the_projects_modules_reach_executors_of_a_cluster(
    tmp_path: Path, bootstrap: str, spark: SparkSession, topics: Topics, live_topic: str
) -> None:
    """Workers have the wheel and not the project: its code is sent to them."""
    text = f"""
from lib.deep.names import first, Line

@dp.table(format="delta")
def rows():
    return hp.topic("{live_topic}", hp.parser(first, Line)).select(
        "id", F.udf(lambda number: number * 2, "bigint")("id").alias("twice"))
"""
    helper = """
from typing import NamedTuple
import json

class Line(NamedTuple):
    id: int

def first(value):
    return Line(json.loads(value)["id"])
"""
    (tmp_path / "cluster").mkdir()
    topics.append(live_topic, 0, json_records(0, 5))
    topics.append(live_topic, 1, json_records(5, 5))
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        settings = (
            f'master = "{cluster.master}"\n[configuration]\n"spark.driver.host" = "127.0.0.1"\n'
            '"spark.driver.bindAddress" = "127.0.0.1"\n'
        )
        shop = make_project(tmp_path / "shop", bootstrap, spark, text, settings).directory
        (shop / "lib" / "deep").mkdir(parents=True)
        (shop / "lib" / "deep" / "names.py").write_text(helper)
        ended = live.run(*live.words(shop, bootstrap, "--once"))
    assert ended.code == 0, ended
    table = DeltaTable(str(shop / "data" / "rows")).to_pyarrow_table().sort_by("id")
    assert table.to_pydict() == {"id": list(range(10)), "twice": list(range(0, 20, 2))}

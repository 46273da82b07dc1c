"""A run on brokers that require TLS and a password: no secret leaves the client's file."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.cli.main import run as command
from headrace.kernels.compile_cache import private_directory
from headrace.pipeline.plan.planned import plan_of
from headrace.pipeline.project import load_project
from headrace.pipeline.run.storage import Storage
from headrace.posix.client_properties import read_client_properties
from headrace.testing import BrokerThread
from tests.spark.pipeline.run_projects import make_project

TEXT = """
@dp.table(format="delta")
def rows():
    return hp.topic("guarded", "id BIGINT")

dp.create_sink("copies", "headrace", {"topic": "copies"})

@dp.append_flow(target="copies")
def copied():
    return hp.topic("guarded", "id BIGINT").select(F.to_json(F.struct("id")).alias("value"))
"""


def processes() -> str:
    """The command lines and environments of this process and all that it has started."""
    found = b""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if place.stat().st_uid == os.getuid():
                found += (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
    return found.decode("utf-8", "replace")


class Watched(list[Mapping[str, Any]]):
    """Events of a run, and what the process list has at each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def append(self, event: Mapping[str, Any]) -> None:
        super().append(event)
        if event["event"] == "batch":
            self.seen += processes()


def test_no_secret_is_in_events_files_or_the_process_list(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Rule 25: a password is in no event, file or command line, and its own file is deleted."""
    (tmp_path / "lines").write_text("".join(f'{{"id": {number}}}\n' for number in range(3)))
    with BrokerThread(security="SASL_SSL") as broker:
        file = broker.clients.file
        assert file is not None
        broker.create_topics("guarded", "copies")
        send = ["produce", "guarded", str(tmp_path / "lines"), "-b", broker.bootstrap]
        assert command([*send, "--command-config", str(file)]) == 0
        settings = read_client_properties(file)
        project = make_project(tmp_path / "shop", broker.bootstrap, spark, TEXT)
        events = Watched()
        project = project._replace(events=events)
        assert project.run(settings=settings).code == 0, project.events
        copies = [json.loads(record.value or b"") for record in broker.records("copies")]
    assert copies == [{"id": number} for number in range(3)]
    table = DeltaTable(str(project.storage / "rows")).to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == [0, 1, 2]
    jaas = settings["sasl.jaas.config"]
    secret = jaas.partition('password="')[2].partition('"')[0]
    assert len(secret) > 4
    files = [path for path in project.directory.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    assert secret not in json.dumps(project.events)
    assert "java" in events.seen, "Spark's processes were looked at"
    assert secret not in events.seen
    plan = plan_of(load_project(project.directory), Storage(project.storage), spark)
    assert secret not in json.dumps(plan.to_json())
    assert list(private_directory("pipeline").glob("client-*")) == []

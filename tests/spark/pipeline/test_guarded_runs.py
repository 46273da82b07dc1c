"""A run on brokers that require TLS and a password: no secret leaves the client's file."""

import json
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.cli.main import run as command
from headrace.kernels.compile_cache import private_directory
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


def test_no_secret_is_in_events_or_in_files_of_the_storage(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Rule 25: a password is in no event, table, checkpoint or log, and its file is deleted."""
    (tmp_path / "lines").write_text("".join(f'{{"id": {number}}}\n' for number in range(3)))
    with BrokerThread(security="SASL_SSL") as broker:
        file = broker.clients.file
        assert file is not None
        broker.create_topics("guarded", "copies")
        send = ["produce", "guarded", str(tmp_path / "lines"), "-b", broker.bootstrap]
        assert command([*send, "--command-config", str(file)]) == 0
        settings = read_client_properties(file)
        project = make_project(tmp_path / "shop", broker.bootstrap, spark, TEXT)
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
    assert list(private_directory("pipeline").glob("client-*")) == []

"""`headrace disk` and `cluster health` where a log directory has failed, or has `-stray` logs."""

from pathlib import Path

import pytest

from headrace.log import file_names, text_files
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import asker, sayer


def fail(broker: BrokerThread, at: int) -> None:
    """Have the log directory fail as by an error of its disk."""
    error = OSError(5, "Input/output error")
    broker.call(lambda server: server.directories[at].context.fail(error, "/x") and None)


@pytest.fixture
def two_directories(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}


def test_disk_and_health_name_a_failed_directory(
    two_directories: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerThread(two_directories, directory=str(tmp_path)) as broker:
        broker.create_topics("t", partitions=4)
        says = sayer(broker.bootstrap, capsys)
        code, found = asker(says)("disk")
        assert code == 0
        assert [row["state"] for row in found["directories"]] == ["ok", "ok"]
        assert all(row["free_bytes"] > 0 for row in found["directories"])
        fail(broker, 1)
        code, found = asker(says)("disk")
        assert code == 1
        rows = [(row["directory"], row["state"]) for row in found["directories"]]
        assert rows == [(f"{tmp_path}/two", "failed"), (f"{tmp_path}/one", "ok")]
        code, text, _ = says("disk")
        assert (code, f"{tmp_path}/two  failed" in " ".join(text.split("\n"))) == (1, True)
        code, text, _ = says("cluster", "health")
        assert code == 1
        said = "1 log directory has failed, and the replicas in it are offline: broker 0"
        assert f"{said} {tmp_path}/two" in text
        code, found = asker(says)("cluster health")
        assert "directories_failed" in [reason["code"] for reason in found["reasons"]]


def test_a_disk_below_the_mark_is_named_to_producers_and_by_health(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    huge = f"log.dirs.free.bytes.min={1 << 60}"
    with BrokerThread(directory=str(tmp_path)) as broker:
        broker.create_topics("t")
        says = sayer(broker.bootstrap, capsys)
        assert says("cluster", "health")[0] == 0
        assert says("config", "set", "broker", "0", huge)[0] == 0
        broker.call(lambda server: server.free_space.start())
        code, text, _ = says("cluster", "health")
        assert code == 1
        assert "1 log directory has less free space than log.dirs.free.bytes.min" in text
        assert f"broker 0 {tmp_path} (" in text
        code, found = asker(says)("cluster health")
        assert [reason["code"] for reason in found["reasons"]] == ["directories_low"]
        code, found = asker(says)("disk")
        assert (code, [row["state"] for row in found["directories"]]) == (1, ["low"])
        code, _, said = says("disk")
        assert (code, "Produce requests to it fail (KAFKA_STORAGE_ERROR)" in said) == (1, True)
        assert f"broker 0 {tmp_path} (" in said
        assert says("config", "set", "broker", "0", "-d", "log.dirs.free.bytes.min")[0] == 0
        code, found = asker(says)("disk")
        assert (code, [row["state"] for row in found["directories"]]) == (0, ["ok"])


def test_disk_lists_logs_that_were_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    name = file_names.stray_directory(TopicPartition("t", 3), b"u" * 16)
    stray = tmp_path / name
    with BrokerThread(directory=str(tmp_path)):
        pass
    stray.mkdir()
    (stray / "00000000000000000000.log").write_bytes(b"x" * 2048)
    (stray / "partition.metadata").write_bytes(text_files.write_partition_metadata(b"i" * 16))
    caplog.clear()
    with BrokerThread(directory=str(tmp_path)) as broker:
        (line,) = [line for line in caplog.messages if name in line]
        assert "a former log of t-3 (2048 bytes, topic id aWlpaWlpaWlpaWlpaWlpaQ)" in line
        assert "rename it to t-3 while the broker is stopped" in line
        says = sayer(broker.bootstrap, capsys)
        code, found = asker(says)("disk")
        assert code == 0
        assert found["stray_logs"] == [{"broker": 0, "directory": str(stray), "bytes": 2048}]
        assert found["topics"] == [], "no client is told of them as of topics"
        assert str(stray) in says("disk")[1]
        for path in stray.iterdir():
            path.unlink()
        stray.rmdir()
        assert asker(says)("disk")[1]["stray_logs"] == []

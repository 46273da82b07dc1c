"""The administrator's verbs on three brokers: who leads and who is asked differ."""

from pathlib import Path

import pytest

from headrace.client.producer import transactions
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from tests.support.processes.cli_kit import asker, sayer, send
from tests.support.processes.dev_process import trial


def test_the_verbs_work_whoever_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with trial(tmp_path, "--brokers", "3") as bootstrap:
        asked = asker(sayer(bootstrap, capsys))
        assert asked("topic create", "orders", "-p", "3")[0] == 0
        for partition in range(3):
            send(bootstrap, "orders", 10, partition=partition, time=1000)
        assert len(asked("cluster info")[1]["brokers"]) == 3
        assert asked("cluster health")[1]["reasons"] == []
        for broker in ("1", "2", "3"):
            assert asked("config set", "broker", broker, f"log.retention.ms=700{broker}")[0] == 0
            _, found = asked("config get", "broker", broker, "log.retention.ms")
            assert found["configs"]["log.retention.ms"]["value"] == f"700{broker}"
        code, trimmed = asked("topic trim", "orders", "--to", "@1004", "--yes")
        assert (code, [row["to_offset"] for row in trimmed["partitions"]]) == (0, [4, 4, 4])
        _, rows = asked("topic offsets", "orders")
        assert [(row["start_offset"], row["end_offset"]) for row in rows] == [(4, 10)] * 3
        asked("group reset", "g", "--to-latest", "--topic", "orders", "--execute")
        _, (group,) = asked("group describe", "g")
        assert [row["committed_offset"] for row in group["partitions"]] == [10] * 3
        with connect(bootstrap) as client:
            for name in ("a", "b", "c"):
                writer = run(transactions.take_id(client, name, 60_000))
                run(transactions.add_partitions(client, writer, [TopicPartition("orders", 1)]))
        _, listed = asked("txn list", "--state", "Ongoing")
        assert [row["transactional_id"] for row in listed] == ["a", "b", "c"]
        assert asked("txn abort", "b", "--yes")[0] == 0
        assert len(asked("txn list", "--state", "Ongoing")[1]) == 2
        asked("quota set", "producer_byte_rate=1e9", "--user", "alice")
        assert asked("quota list")[1][0]["entity"] == {"user": "alice"}

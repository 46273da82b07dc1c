"""The version before opens a directory, checkpoints, decisions and tables of this version."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.version_before import spark_state
from tests.support.version_before.compare import differences
from tests.support.version_before.observe_amqp import listed, observe_amqp, opened
from tests.support.version_before.observe_kafka import observe_kafka
from tests.support.version_before.stored_broker import StoredBroker
from tests.support.version_before.write_broker import ENDS, fill, observe, pack, unpack

RECORDS, MORE = 600, 150
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]


def known(kafka: dict[str, Any], lists: dict[str, Any], vhosts: dict[str, str]) -> dict[str, Any]:
    """All but AMQP's declarations, which the version before looks for in its metadata store."""
    amqp = {kind: lists[kind] for kind in ("user", "permission", "topic-permission")}
    # The number of a vhost's queues is that of its declarations; "/" has a description since.
    amqp["vhost"] = [
        {**vhost, "queues": None, "description": vhost["name"] != "/" and vhost["description"]}
        for vhost in lists["vhost"]
    ]
    return {"kafka": kafka, "amqp": amqp, "opened": vhosts}


def observe_known(broker: StoredBroker) -> dict[str, Any]:
    """Read what the version before finds."""
    return known(observe_kafka(broker), listed(broker), opened(broker))


@pytest.mark.parametrize("end", ENDS)
def test_version_before_reads_the_same_in_a_new_directory(
    end: str, headrace_before: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "log.tar.xz"
    with StoredBroker(tmp_path / "new") as broker:
        kept = fill(broker)
        broker.stop() if end == "stopped" else broker.kill()
        pack(broker.log, archive)
        del kept
    found = []
    for name, commands in (("old", [headrace_before]), ("new", [])):
        unpack(archive, tmp_path / f"copy-{name}")
        with StoredBroker(tmp_path / f"copy-{name}", *commands) as broker:
            found.append(observe_known(broker))
    assert [*differences(found[0], found[1])] == []
    with StoredBroker(tmp_path / "copy-old") as again, StoredBroker(tmp_path / "copy-new") as new:
        found = [observe_amqp(again), observe_amqp(new)]
    assert [*differences(found[0], found[1])] == [], "the version before deletes no queue's topic"


def test_directory_that_went_to_the_version_before_and_back_has_all(
    headrace_before: Path, tmp_path: Path
) -> None:
    broker = StoredBroker(tmp_path, headrace_before)
    with broker:
        kept = fill(broker)
        broker.stop()
        del kept
    archive = tmp_path / "log.tar.xz"
    pack(broker.log, archive)
    unpack(archive, tmp_path / "copy")
    with StoredBroker(tmp_path / "copy", headrace_before) as straight:
        wanted = observe(straight)
    with StoredBroker(tmp_path):
        pass  # the new version opens it, and ends cleanly
    with StoredBroker(tmp_path, headrace_before) as again:
        amqp = wanted["amqp"]
        there = known(wanted["kafka"], amqp["listed"], amqp["opened"])
        assert [*differences(there, observe_known(again))] == []
    amqp["listed"]["vhost"][0]["description"] = "Default virtual host"  # of "/", since
    with StoredBroker(tmp_path) as back:
        assert [*differences(amqp, observe_amqp(back))] == []


def test_version_before_goes_on_with_new_checkpoints_and_tables(
    before: Path, headrace_before: Path
) -> None:
    with spark_state.place() as place:
        with StoredBroker(place / "broker") as broker:
            spark_state.create(broker)
            spark_state.produce(broker, 0, RECORDS)
            spark_state.run(broker, place)
        spark_state.forget_last_commits(place)
        with StoredBroker(place / "broker", headrace_before) as broker:
            found = spark_state.observe(broker, place)
            spark_state.holds_once(found, range(RECORDS))
            spark_state.produce(broker, RECORDS, MORE)
            spark_state.run(broker, place, before)
            found = spark_state.observe(broker, place)
            spark_state.holds_once(found, range(RECORDS + MORE))

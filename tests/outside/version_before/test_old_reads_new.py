"""The version before opens a directory, checkpoints, decisions and tables of this version."""

from pathlib import Path

import pytest

from tests.support.version_before import spark_state
from tests.support.version_before.compare import differences
from tests.support.version_before.stored_broker import StoredBroker
from tests.support.version_before.write_broker import ENDS, fill, observe, pack, unpack

RECORDS, MORE = 600, 150
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]


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
        with StoredBroker(tmp_path / f"copy-{name}", *commands) as opened:
            found.append(observe(opened))
    assert [*differences(found[0], found[1])] == []


def test_version_before_reads_a_directory_that_went_there_and_back(
    headrace_before: Path, tmp_path: Path
) -> None:
    broker = StoredBroker(tmp_path, headrace_before)
    with broker:
        kept = fill(broker)
        broker.stop()
        del kept
    archive = tmp_path / "log.tar.xz"
    pack(broker.log, archive)
    with StoredBroker(tmp_path):
        pass  # the new version opens it, and ends cleanly
    with StoredBroker(tmp_path, headrace_before) as again:
        found = observe(again)
    unpack(archive, tmp_path / "copy")
    with StoredBroker(tmp_path / "copy", headrace_before) as straight:
        assert [*differences(observe(straight), found)] == []


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

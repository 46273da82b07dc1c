"""`headrace log …` on real files: what it prints, its exit codes, one clear line for bad input."""

import fcntl
import json
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from headrace.cli.main import run
from headrace.log.directory.state_files import durable_read_bounds
from headrace.record.batch import Record, build
from headrace.wire.kafka.coordinator_records import share_state

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A real Kafka's log directory."""
    with tarfile.open(GOLDEN / "kafka-4.3.1-clean.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "kafka-4.3.1-clean"


@pytest.fixture
def running(logs: Path) -> Iterator[Path]:
    """The same, with a process holding its lock."""
    with (logs / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield logs


def damage(path: Path, at: int = 100) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def test_a_kafkas_directory_is_sound(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(logs)]) == 0
    assert capsys.readouterr().out.startswith("sound: 24 partitions, 27 segments, ")


def test_damage_is_named_and_makes_the_command_fail(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (logs / "g-zstd-0").glob("*.log")
    damage(path)
    assert run(["log", "verify", str(logs)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"damaged: {path}: at byte 0, ")
    assert "headrace log repair" in out[-1]
    for part in (path, path.parent):
        assert run(["log", "verify", str(part)]) == 1


def test_several_paths_are_verified_and_the_worst_of_them_is_the_answer(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, damaged = logs / "g-gzip-0", logs / "g-zstd-0"
    (path,) = damaged.glob("*.log")
    damage(path, at=20_000)
    assert run(["log", "verify", str(sound), str(sound)]) == 0
    capsys.readouterr()
    for paths in ((sound, damaged), (damaged, sound)):
        assert run(["log", "verify", *map(str, paths)]) == 1
        out = capsys.readouterr().out
        assert out.count("g-zstd-0") >= 1
        assert out.count("sound") == 1, "each has its answer"


def test_verify_answers_in_json(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (logs / "g-txn-0").glob("*25.txnindex")
    path.write_bytes(b"")
    assert run(["log", "verify", "--json", str(logs / "g-txn-0")]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sound"], answer["live"], answer["partitions"]) == (False, False, 1)
    assert [one["kind"] for one in answer["findings"]] == ["txnindex"]


def test_verify_says_what_it_cannot_know_beside_a_running_broker(
    running: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "verify", str(running)]) == 0
    assert "a broker is running on it" in capsys.readouterr().err


def test_repair_refuses_a_running_brokers_directory(
    running: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "repair", str(running)]) == 1
    assert "a broker is running on it (another process); stop it first" in capsys.readouterr().err


def test_repair_mends_and_verify_agrees(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (logs / "g-zstd-0").glob("*.log")
    damage(path, at=20_000)
    assert run(["log", "repair", "--dry-run", str(logs)]) == 1
    assert "nothing was changed" in capsys.readouterr().out
    assert run(["log", "verify", str(logs)]) == 1
    assert run(["log", "repair", str(logs)]) == 0
    assert "lost are offsets " in capsys.readouterr().out
    assert path.with_name(path.name + ".damaged").exists()
    assert run(["log", "verify", str(logs)]) == 0


def test_repair_of_one_partition_leaves_the_others(logs: Path) -> None:
    for name in ("g-zstd-0", "g-gzip-0"):
        (path,) = (logs / name).glob("*.log")
        damage(path, at=20_000)
    assert run(["log", "repair", str(logs / "g-zstd-0")]) == 0
    assert run(["log", "verify", str(logs / "g-zstd-0")]) == 0
    assert run(["log", "verify", str(logs / "g-gzip-0")]) == 1


def test_repair_of_a_sound_directory_does_nothing(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "repair", str(logs)]) == 0
    assert capsys.readouterr().out == "nothing to repair\n"


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["verify", "NOWHERE"],
        ["verify", "EMPTY"],
        ["verify", "FOREIGN"],
        ["repair", "NOWHERE"],
        ["repair", "EMPTY"],
        ["repair", "FOREIGN"],
        ["dump", "--format", "kafka", "--json", "FOREIGN"],
        ["dump", "--format", "xml", "FOREIGN"],
        ["dump", "--offsets-decoder", "--transaction-log-decoder", "FOREIGN"],
        ["dump", "--offsets-decoder", "--share-group-state-decoder", "FOREIGN"],
        ["dump", "--verify-index-only", "FOREIGN"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "holiday.jpg").write_bytes(b"jpg")
    places = {
        "NOWHERE": str(tmp_path / "nowhere"),
        "EMPTY": str(tmp_path / "empty"),
        "FOREIGN": str(tmp_path / "holiday.jpg"),
    }
    assert run(["log", *(places.get(word, word) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith('{"error":' if "--json" in words else "headrace: ")


def test_dump_prints_in_kafkas_words(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (logs / "g-txn-0").glob("*25.txnindex")
    assert run(["log", "dump", "--format", "kafka", str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"Dumping {path}"
    assert out[1] == "version: 0 producerId: 1 firstOffset: 0 lastOffset: 25 lastStableOffset: 26"


def test_dump_in_kafkas_words_says_what_kafkas_tool_does_not_open(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logs / "meta.properties"
    assert run(["log", "dump", "--format", "kafka", str(path)]) == 0
    assert capsys.readouterr().err == f"Ignoring unknown file {path}\n"


@pytest.mark.parametrize("format_", ["text", "json", "kafka"])
def test_dump_of_a_directory_without_files_of_a_log_says_so_and_prints_the_others(
    format_: str, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    if format_ != "kafka":
        (empty / "holiday.jpg").write_bytes(b"jpg")
    (segment,) = (logs / "g-txn-0").glob("*25.txnindex")
    assert run(["log", "dump", "--format", format_, str(empty), str(segment)]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith(f"headrace: {empty}: contains no log files")
    assert segment.name in out


def test_dump_prints_the_durable_read_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = struct.pack(">16siqqq", bytes(range(16)), 3, 10, 30, 20)
    path = tmp_path / durable_read_bounds.NAME
    header = b"headrace durable read bounds, version 1\n".ljust(
        durable_read_bounds.SLOT.size, b"\0"
    )
    path.write_bytes(
        header + struct.pack(">I", crc32c(body)) + body + bytes(durable_read_bounds.SLOT.size)
    )
    assert run(["log", "dump", "--json", str(path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert (row["partition"], row["start_offset"], row["end_offset"]) == (3, 10, 30)
    path.write_bytes(b"something else")
    assert run(["log", "dump", str(path)]) == 1
    assert "not a durable-read-bounds file" in capsys.readouterr().err


def share_state_log(place: Path) -> Path:
    """A segment of what becomes of share groups: a snapshot, an update, and the group's end."""
    key = share_state.ShareKey("g", bytes(range(16)), 3)
    update = replace(key, type=share_state.UPDATE_KEY_TYPE)
    snapshot = share_state.SnapshotValue(7, 2, 0, 100, 1, 2, [(100, 104, 2, 1)])
    later = share_state.UpdateValue(7, 0, 105, [(105, 105, 0, 2)], 1)
    records = [
        Record(0, 5, share_state.encode_key(key), share_state.encode_snapshot(snapshot), ()),
        Record(1, 6, share_state.encode_key(update), share_state.encode_update(later), ()),
        Record(2, 7, share_state.encode_key(key), None, ()),
    ]
    place.mkdir()
    path = place / "00000000000000000000.log"
    path.write_bytes(build(records))
    return path


def test_the_dump_names_what_a_share_groups_state_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    told = [
        ["--records", str(share_state_log(tmp_path / "__share_group_state-0"))],
        ["--share-group-state-decoder", str(share_state_log(tmp_path / "other-0"))],
    ]
    for words in told:
        assert run(["log", "dump", "--json", *words]) == 0
        _, first, second, last = map(json.loads, capsys.readouterr().out.splitlines())
        assert first["key"] == {"group": "g", "topic_id": topic_id, "partition": 3}
        kinds = [one["type"] for one in (first, second, last)]
        assert kinds == ["ShareSnapshotKey", "ShareUpdateKey", "ShareSnapshotKey"]
        assert (first["value"]["state_epoch"], first["value"]["start_offset"]) == (2, 100)
        assert second["value"]["batches"] == [
            {"first_offset": 105, "last_offset": 105, "state": 0, "delivery_count": 2}
        ]
        assert second["value"]["complete_count"] == 1
        assert last["value"] is None


def test_share_state_is_printed_as_dump_log_segments_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = share_state_log(tmp_path / "s-0")
    words = ["log", "dump", "--format", "kafka", "--share-group-state-decoder", str(path)]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    key = '{"groupId":"g","topicId":"AAECAwQFBgcICQoLDA0ODw","partition":3}'
    update = (
        '{"snapshotEpoch":7,"leaderEpoch":0,"startOffset":105,"deliveryCompleteCount":1,'
        '"stateBatches":[{"firstOffset":105,"lastOffset":105,"deliveryState":0,"deliveryCount":2}]}'
    )
    assert lines[-2].endswith(
        f' key: {{"type":"1","data":{key}}} payload: {{"version":"0","data":{update}}}'
    )
    assert lines[-1].endswith(" payload: <DELETE>")

"""`headrace log import` and `export`: what arrives, what stays untouched, what is refused."""

import fcntl
import os
import tarfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.log import file_names, text_files
from headrace.logtools.dump import dump
from headrace.logtools.transfer import Transfer
from headrace.logtools.verify.directory import partitions_in
from headrace.posix.clock import RealRandom
from headrace.posix.disk import RealDisk
from headrace.posix.file_copies import Copier
from headrace.record.batch import iterate

GOLDEN = Path(__file__).parents[2] / "golden"


def unpacked(name: str, place: Path) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tgz") as archive:
        archive.extractall(place, filter="data")
    return place / name


@pytest.fixture(params=["kafka-4.3.1-clean", "kafka-3.9.2-clean"])
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A real Kafka's log directory."""
    return unpacked(request.param, tmp_path / "kafka")


@pytest.fixture
def kafka4(tmp_path: Path) -> Path:
    return unpacked("kafka-4.3.1-clean", tmp_path / "kafka")


@pytest.fixture
def ours(kafka4: Path, tmp_path: Path) -> Path:
    """A log directory of ours."""
    assert run(["log", "import", str(kafka4), str(tmp_path / "ours")]) == 0
    return tmp_path / "ours"


def prepared(tmp_path: Path, source: Path) -> Path:
    """A stopped KRaft Kafka's directory in which the topics were just created."""
    target = tmp_path / "target"
    target.mkdir()
    (target / file_names.META_PROPERTIES).write_text(
        "version=1\nnode.id=7\ncluster.id=other\ndirectory.id=dddddddddddddddddddddg\n"
    )
    (target / file_names.CLEAN_SHUTDOWN).write_bytes(text_files.write_clean_shutdown(3))
    for place in partitions_in(RealDisk(None), str(source)):
        directory = target / str(place)
        directory.mkdir()
        (directory / file_names.segment_file(0, file_names.LOG)).touch()
        topic_id = place.topic.encode().ljust(16, b"#")[:16]
        (directory / file_names.PARTITION_METADATA).write_bytes(
            text_files.write_partition_metadata(topic_id)
        )
    return target


def tree(place: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below: its last change and its bytes."""
    return {
        str(path.relative_to(place)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in place.rglob("*")
        if path.is_file()
    }


def test_import_brings_every_partition_to_the_byte_and_leaves_the_source_alone(
    kafka: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(kafka)
    target = tmp_path / "deep" / "ours"
    assert run(["log", "import", str(kafka), str(target)]) == 0
    assert tree(kafka) == before
    after = tree(target)
    brought = {name: found for name, found in before.items() if "/" in name}
    assert len(brought) > 100
    for name, found in brought.items():
        if not name.startswith(file_names.KRAFT_METADATA):
            assert after[name] == found, name
    assert not any(name.startswith(file_names.KRAFT_METADATA) for name in after)
    assert after["meta.properties"][1] == before["meta.properties"][1]
    assert file_names.CLEAN_SHUTDOWN in after
    for name in (file_names.RECOVERY_POINTS, file_names.HIGH_WATERMARKS):
        offsets = text_files.read_offsets(before[name][1], name)
        assert text_files.read_offsets(after[name][1], name) == {
            place: offset
            for place, offset in offsets.items()
            if place.topic != "__cluster_metadata"
        }
    out = capsys.readouterr().out
    assert "sound: 24 partitions" in out
    assert f"headrace serve --data {target}" in out
    assert "--set offsets.topic.num.partitions=5" in out


def test_import_after_a_kill_leaves_the_logs_to_be_looked_through(
    kafka4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kafka4 / file_names.CLEAN_SHUTDOWN).unlink()
    assert run(["log", "import", str(kafka4), str(tmp_path / "ours")]) == 0
    assert not (tmp_path / "ours" / file_names.CLEAN_SHUTDOWN).exists()
    assert "not stopped cleanly" in capsys.readouterr().out


def test_hard_links_are_of_closed_segments_only(kafka4: Path, tmp_path: Path) -> None:
    assert run(["log", "import", "--link", str(kafka4), str(tmp_path / "ours")]) == 0
    shared: list[str] = []
    own: list[str] = []
    for source in sorted(kafka4.glob("g-txn-0/*")):
        target = tmp_path / "ours" / "g-txn-0" / source.name
        (shared if os.path.samefile(source, target) else own).append(source.name)
    assert shared == ["00000000000000000000.log"]
    assert "00000000000000000025.log" in own


def test_a_reflink_where_there_are_none_is_one_line(
    kafka4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["log", "import", "--reflink", str(kafka4), str(tmp_path / "ours")])
    err = capsys.readouterr().err
    assert status == 0 or (status == 1 and "omit --reflink to copy" in err)


def test_only_the_topics_asked_for_come_and_offsets_only_if_wanted(
    kafka4: Path, tmp_path: Path
) -> None:
    words = ["log", "import", "--topic", "g-plain", "-t", "g-zstd", "--no-offsets"]
    assert run([*words, str(kafka4), str(tmp_path / "ours")]) == 0
    found = Counter(place.topic for place in partitions_in(RealDisk(None), str(tmp_path / "ours")))
    assert found == {"g-plain": 3, "g-zstd": 1, "__transaction_state": 5}


def test_an_interrupted_import_leaves_nothing_that_is_served(kafka4: Path, tmp_path: Path) -> None:
    copier, left = Copier("copy", lambda size: None), [5]

    def failing(source: str, target: str, closed: bool) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        copier(source, target, closed)

    target = tmp_path / "ours"
    target.mkdir()
    disk = RealDisk(None)
    transfer = Transfer(disk, RealRandom(), str(kafka4), str(target), failing)
    ((place, where),) = list(partitions_in(disk, str(kafka4)).items())[-1:]
    with pytest.raises(OSError, match="No space"):
        transfer.bring(place, where, None)
    assert partitions_in(disk, str(target)) == {}
    assert all(path.name.endswith("-delete") for path in target.iterdir())


def test_export_takes_the_targets_topic_ids_and_begins_with_epoch_0(
    ours: Path, tmp_path: Path
) -> None:
    before, target = tree(ours), prepared(tmp_path, ours)
    assert run(["log", "export", str(ours), str(target)]) == 0
    assert tree(ours) == before
    records = 0
    for place, where in partitions_in(RealDisk(None), str(target)).items():
        path = Path(where)
        metadata = (path / file_names.PARTITION_METADATA).read_bytes()
        topic_id = text_files.read_partition_metadata(metadata, where)
        assert topic_id == place.topic.encode().ljust(16, b"#")[:16]
        for log in path.glob("*.log"):
            data = log.read_bytes()
            for _, header in iterate(data):
                assert header.leader_epoch == 0
                records += header.record_count
            if place.topic not in {"__consumer_offsets", "__transaction_state"}:
                original = (ours / str(place) / log.name).read_bytes()
                assert len(original) == len(data)
    assert records > 20_000
    assert "node.id=7" in (target / file_names.META_PROPERTIES).read_text()
    assert (target / file_names.CLEAN_SHUTDOWN).read_bytes() == text_files.write_clean_shutdown(3)
    assert run(["log", "verify", str(target)]) == 0


def read_at(descriptor: int, position: int, size: int) -> bytes:
    return os.pread(descriptor, size, position)


def test_exported_commits_keep_offset_and_metadata_and_lose_epoch_and_topic_id(
    ours: Path, tmp_path: Path
) -> None:
    def commits(place: Path) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for log in sorted(place.glob("__consumer_offsets-*/*.log")):
            with log.open("rb") as file:
                size = log.stat().st_size
                rows = dump(str(log), size, partial(read_at, file.fileno()), records=True)
                for row in rows:
                    value = row.get("value")
                    if row.get("type") == "OffsetKey" and isinstance(value, dict):
                        key = str(row["key"])
                        found.append((row["offset"], key, value["offset"], value["metadata"]))
                        if place != ours:
                            assert (value["leader_epoch"], value["topic_id"]) == (-1, bytes(16))
        return found

    target = prepared(tmp_path, ours)
    assert run(["log", "export", str(ours), str(target)]) == 0
    assert commits(target) == commits(ours) != []


def test_export_into_a_new_directory_keeps_the_topic_ids(ours: Path, tmp_path: Path) -> None:
    given = text_files.encode_uuid(b"sixteen-bytes-id")
    words = ["log", "export", "-t", "g-zstd", "-t", "g-gzip", "--no-offsets"]
    target = tmp_path / "target"
    assert run([*words, "--topic-id", f"g-zstd={given}", str(ours), str(target)]) == 0
    name = file_names.PARTITION_METADATA
    assert given in (target / "g-zstd-0" / name).read_text()
    assert (target / "g-gzip-0" / name).read_bytes() == (ours / "g-gzip-0" / name).read_bytes()


def refused(words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["log", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert text in err


def test_what_cannot_be_imported_is_refused_with_a_line(
    kafka4: Path, ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = str(kafka4), str(tmp_path / "new")
    refused(["import", source, str(ours)], 1, "holds records already", capsys)
    refused(["import", str(tmp_path / "none"), target], 2, "no such directory", capsys)
    refused(["import", str(kafka4 / "g-txn-0"), target], 2, "not a log directory", capsys)
    refused(["import", "-t", "nope", source, target], 2, "no partition of this topic", capsys)
    refused(["import", source, str(kafka4 / "x")], 2, "is inside the source", capsys)
    refused(["import", "--link", "--reflink", source, target], 2, "cannot be combined", capsys)
    refused(["import", "--topic-id", "g-txn=short", source, target], 2, "22 characters", capsys)
    with (kafka4 / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(["import", source, target], 1, "a broker is running on it", capsys)
    (kafka4 / file_names.CLEAN_SHUTDOWN).unlink()
    refused(["import", "--link", source, target], 1, "omit --link", capsys)


def test_what_cannot_be_exported_is_refused_with_a_line(
    ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = prepared(tmp_path, ours)
    words = ["export", str(ours), str(target)]
    (target / "g-zstd-0" / file_names.PARTITION_METADATA).unlink()
    refused(words, 1, "the topic id of g-zstd is unknown; create g-zstd there", capsys)
    refused([*words, "-t", "g-lz4", "-b", "nowhere:x"], 2, "--bootstrap", capsys)
    (target / "__consumer_offsets-5").mkdir()
    refused([*words, "-t", "g-lz4"], 1, "offsets.topic.num.partitions=5", capsys)
    (target / "g-lz4-0" / file_names.segment_file(0, file_names.LOG)).write_bytes(b"records")
    refused([*words, "-t", "g-lz4", "--no-offsets"], 1, "holds records already", capsys)
    (ours / file_names.CLEAN_SHUTDOWN).unlink()
    refused(words, 1, "was not stopped cleanly", capsys)

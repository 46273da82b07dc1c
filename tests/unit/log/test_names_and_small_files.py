"""Names of files and directories, and the small text files: what is taken, what is refused."""

import pytest

from headrace.log import file_names, text_files
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import TopicPartition
from headrace.testing.disk import SimDisk

PLACE = TopicPartition("a.b_c-d", 12)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("t-0", ("t", 0)),
        ("a-1-2", ("a-1", 2)),
        ("t-2147483647", ("t", 2147483647)),
        ("t-2147483648", None),
        ("t-00", None),
        ("t-01", None),
        ("t-99999999999", None),
        ("t", None),
        ("-0", None),
        ("..-0", None),
        ("ä-0", None),
        ("t-0.0123-delete", None),
        ("n" * 249 + "-0", ("n" * 249, 0)),
        ("n" * 250 + "-0", None),
    ],
)
def test_a_directory_is_a_partitions_by_its_name(name: str, place: tuple[str, int] | None) -> None:
    assert file_names.parse_directory(name) == place


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000042.log", (42, ".log")),
        ("00000000000000000000.index.deleted", (0, ".index.deleted")),
        ("99999999999999999999.x", (99999999999999999999, ".x")),
        ("0000000000000000042.log", None),
        ("000000000000000000042.log", None),
        ("00000000000000000042", None),
        ("00000000000000000042.", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_a_segments_file_is_told_by_twenty_digits(
    name: str, parsed: tuple[int, str] | None
) -> None:
    assert file_names.parse_segment_file(name) == parsed
    if parsed is not None:
        assert file_names.segment_file(*parsed) == name


def test_a_deleted_logs_directory_tells_the_partition_as_far_as_255_characters_do() -> None:
    name = file_names.delete_directory(PLACE, bytes(range(16)))
    assert name == "a.b_c-d-12.000102030405060708090a0b0c0d0e0f-delete"
    assert file_names.is_deleted(name)
    assert not file_names.is_deleted("a-0")
    assert file_names.stem_of(name) == file_names.deletion_stem(PLACE) == "a.b_c-d-12"
    assert file_names.parse_directory(name) is None
    for size, kept in ((213, 213), (214, 213), (249, 213)):
        long = TopicPartition("n" * size, 7)
        name = file_names.delete_directory(long, bytes(16))
        assert name == "n" * kept + "-7." + "0" * 32 + "-delete"
        assert len(name) == min(size + 42, 255)
        assert file_names.deletion_stem(long) == file_names.stem_of(name)


OFFSETS = {TopicPartition("b", 2): 5, TopicPartition("a", 10): 0, TopicPartition("a", 9): 1 << 62}


def test_offsets_are_written_sorted_and_read_again() -> None:
    content = text_files.write_offsets(OFFSETS)
    assert content == b"0\n3\na 9 4611686018427387904\na 10 0\nb 2 5\n"
    assert text_files.read_offsets(content, "p") == OFFSETS
    assert text_files.read_offsets(b"0\n0\n", "p") == {}
    assert text_files.read_offsets(b" 0 \n 1 \n\n a  1   2 \n \n", "p") == {("a", 1): 2}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "p: not a checkpoint of version 0"),
        (b"0", "p: not a checkpoint of version 0"),
        (b"1\n0\n", "p: not a checkpoint of version 0"),
        (b"0\n1\nt 0 12", "p: ends inside the line 't 0 12'"),
        (b"0\n1", "p: ends inside the line '1'"),
        (b"0\n1\n", "p: not 1 lines of 3 fields"),
        (b"0\n1\nt 0 1\nt 1 1\n", "p: not 1 lines of 3 fields"),
        (b"0\n1\nt 0\n", "p: not 1 lines of 3 fields"),
        (b"0\n1\nt 0 1 1\n", "p: not 1 lines of 3 fields"),
        (b"0\nmany\n", "p: 'many' is not a number"),
        (b"0\n1\nt x 1\n", "p: 'x' is not a number"),
        (b"0\n1\nt 1 y\n", "p: 'y' is not a number"),
    ],
)
def test_what_is_no_checkpoint_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptLogError) as raised:
        text_files.read_offsets(content, "p")
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("entries", "grows"),
    [
        ([], True),
        ([(0, 0)], True),
        ([(0, 0), (1, 1), (5, 9)], True),
        ([(0, 0), (0, 1)], False),
        ([(0, 0), (1, 0)], False),
        ([(1, 0), (0, 1)], False),
        ([(0, 5), (1, 4)], False),
    ],
)
def test_epochs_are_taken_only_where_both_their_numbers_grow(
    entries: list[tuple[int, int]], grows: bool
) -> None:
    content = text_files.write_epochs(entries)
    assert content.startswith(b"0\n%d\n" % len(entries))
    if grows:
        assert text_files.read_epochs(content, "p") == entries
    else:
        with pytest.raises(CorruptLogError, match="p: epochs or start offsets are not ascending"):
            text_files.read_epochs(content, "p")


def test_topic_ids_are_kafkas_text_of_sixteen_bytes() -> None:
    unique = bytes(range(240, 256))
    text = text_files.encode_uuid(unique)
    assert text == "8PHy8_T19vf4-fr7_P3-_w"
    assert text_files.decode_uuid(text) == text_files.decode_uuid(text + "==") == unique
    for bad in (text[:-1], text + "AA", text_files.encode_uuid(unique[1:])):
        with pytest.raises(ValueError, match=r"is not a uuid|base64|padding"):
            text_files.decode_uuid(bad)
    content = text_files.write_partition_metadata(unique)
    assert content == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert text_files.read_partition_metadata(content + b"\n", "p") == unique
    for none in (b"", b"topic_id: x", b"version: 0\ntopic: " + text.encode()):
        with pytest.raises(CorruptLogError, match="p: no topic_id line"):
            text_files.read_partition_metadata(none, "p")


@pytest.mark.parametrize(
    ("content", "boot"),
    [
        (text_files.write_boot_id("an id"), "an id"),
        (b"version: 0\nboot_id: an id", ""),
        (b"version: 1\nboot_id: an id\n", ""),
        (b"version: 0\nboot: an id\n", ""),
        (b"version: 0\nboot_id: an id\n\n", ""),
        (b"", ""),
    ],
)
def test_a_boot_is_told_only_by_a_whole_file(content: bytes, boot: str) -> None:
    assert text_files.read_boot_id(content) == boot


def test_properties_and_clean_shutdowns_are_read_as_javas() -> None:
    content = b"#c\n!d\n\n a = b=c \nbroker.id=1\nversion\n"
    assert text_files.read_properties(content) == {"a": "b=c", "broker.id": "1", "version": ""}
    made = text_files.write_meta_properties(3, "xyz")
    assert text_files.read_properties(made) == {
        "broker.id": "3", "version": "0", "cluster.id": "xyz",
    }  # fmt: skip
    clean = text_files.write_clean_shutdown()
    assert text_files.read_clean_shutdown(clean, "p") == {"version": 0, "brokerEpoch": -1}
    assert text_files.read_clean_shutdown(text_files.write_clean_shutdown(5), "p") == {
        "version": 0, "brokerEpoch": 5,
    }  # fmt: skip
    assert text_files.read_clean_shutdown(b" \n", "p") == {}
    for bad, reason in ((b"{", "p: not JSON"), (b"[]", "p: not a JSON object")):
        with pytest.raises(CorruptLogError, match=reason):
            text_files.read_clean_shutdown(bad, "p")


def test_a_small_file_is_read_whole_closed_again_and_may_be_missing() -> None:
    disk = SimDisk(lambda: 0)
    disk.make_directory("/d")
    assert text_files.read_file(disk, "/d/none") is None
    disk.replace("/d/file", b"content")
    assert text_files.read_file(disk, "/d/file") == b"content"
    assert disk.open_files == 0

"""What is encoded from Arrow columns is what was there, as our decoder and `records` read it."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.arrow.read.decode import PartitionDecoder
from headrace.arrow.write import encode
from headrace.arrow.write.encode import RowEncoder, RowError
from headrace.kernels.choose import records_encoder_named
from headrace.record.batch import check_produced, records
from headrace.record.compression import Codec
from headrace.record.key_partition import partition_of
from tests.support.examples import examples

pytest.importorskip("numba")

PARTITIONS = {"a": 3, "b": 5}
HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADER),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
blobs = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=120, max_size=140))
headers = st.one_of(
    st.none(),
    st.lists(
        st.fixed_dictionaries(
            {"key": st.text(max_size=4), "value": st.one_of(st.none(), st.binary(max_size=5))}
        ),
        max_size=3,
    ),
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(sorted(PARTITIONS)),
            "key": blobs,
            "value": st.one_of(st.none(), st.text(max_size=70)),
            "headers": headers,
            "partition": st.one_of(st.none(), st.none(), st.integers(0, 2)),
            "timestamp": st.integers(0, 2**50),
        }
    ),
    min_size=1,
    max_size=40,
)


def encoder(kind: str, **given: Any) -> RowEncoder:
    made = RowEncoder(PARTITIONS.__getitem__, **{"batch_bytes": 300, **given})
    made._encode, made._divide = records_encoder_named(kind)
    return made


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    value = row["value"]
    listed = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return (
        row["key"],
        None if value is None else value.encode(),
        row["timestamp"] // 1000,
        listed,
    )


@settings(max_examples=examples(60))
@given(rows, st.sampled_from(Codec), st.sampled_from(["numba", "python"]), st.integers(0, 5))
def test_each_row_arrives_once_in_its_partition_and_in_order(
    made: list[dict[str, Any]], codec: Codec, kind: str, cut: int
) -> None:
    batch = pa.RecordBatch.from_pylist(made, SCHEMA)[cut:]  # offsets that do not begin at 0
    made = made[cut:]
    arrived: dict[tuple[str, int], list[Any]] = {}
    keyless: dict[str, set[int]] = {}
    for place, encoded in encoder(kind, codec=codec).encode(batch):
        sealed = encoded.sealed(7, 1, 0, transactional=True)
        check_produced(memoryview(sealed))
        found = list(records(sealed))
        assert len(found) == encoded.record_count
        assert encoded.max_ms == max(record.timestamp for record in found)
        assert len(encoded.payload) <= 300 or codec or encoded.record_count == 1
        arrived.setdefault((place.topic, place.partition), []).extend(
            (record.key, record.value, record.timestamp, tuple(record.headers)) for record in found
        )
        decoder = PartitionDecoder(*place, offset_from=0, columns=("key", "value"))
        (decoded,) = [*decoder.feed(sealed), *decoder.flush()]
        assert decoded.to_pylist() == [
            {"key": record.key, "value": record.value} for record in found
        ]
    wanted: dict[tuple[str, int], list[Any]] = {}
    sticky = set(arrived)
    for row in made:
        topic, partition = row["topic"], row["partition"]
        if partition is None and row["key"] is not None:
            partition = partition_of(row["key"], PARTITIONS[topic])
        if partition is None:
            homes = [
                place for place in sticky if place[0] == topic and expected(row) in arrived[place]
            ]
            assert homes
            keyless.setdefault(topic, set(range(9))).intersection_update(at for _, at in homes)
            continue
        wanted.setdefault((topic, partition), []).append(expected(row))
    assert all(keyless.values())  # one partition for all of a call
    for home, listed in wanted.items():
        rest = iter(arrived[home])
        assert all(any(row == other for other in rest) for row in listed), home
    assert sum(map(len, arrived.values())) == len(made)


@pytest.mark.parametrize("kind", ["numba", "python"])
def test_keyless_rows_of_the_next_call_go_to_the_next_partition(kind: str) -> None:
    one = encoder(kind)
    rows = pa.table({"value": ["x"] * 4})
    places = [{place for place, _ in one.encode(rows, "a")} for _ in range(3)]
    assert sorted(place.partition for (place,) in places) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["numba", "python"])
def test_a_record_larger_than_a_batch_travels_alone(kind: str) -> None:
    rows = pa.table(
        {"value": [b"x", b"y" * 5000, b"z"], "partition": pa.array([1] * 3, pa.int32())}
    )
    found = [encoded.record_count for _, encoded in encoder(kind).encode(rows, "a")]
    assert found == [1, 1, 1]


@pytest.mark.parametrize(
    ("columns", "topic", "why"),
    [
        ({"value": ["x"]}, None, "topic: missing"),
        ({"value": ["x", "y"], "topic": ["a", None]}, None, "topic: a row has none"),
        ({"value": ["x"], "partition": pa.array([3], pa.int32())}, "a", "3 is not one of a"),
        ({"value": ["x"], "partition": pa.array([-1], pa.int32())}, "a", "partition: -1 is not"),
        ({"value": ["x"], "headers": pa.array([[{"key": None, "value": b""}]], HEADER)}, "a",
         "headers: one has no key"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["numba", "python"])
def test_a_row_that_cannot_be_a_record_is_refused(
    kind: str, columns: dict[str, Any], topic: str | None, why: str
) -> None:
    with pytest.raises(RowError, match=why):
        list(encoder(kind).encode(pa.table(columns), topic))


@pytest.mark.parametrize("kind", ["numba", "python"])
@pytest.mark.parametrize("column", [1, 2, 6, 7])
def test_offsets_that_lie_outside_of_their_data_are_refused_before_a_byte_is_read(
    kind: str, column: int
) -> None:
    import numpy as np

    encode_records, _ = records_encoder_named(kind)
    good = encode._bytes_of(pa.array([b"abc", b"de"], pa.binary()))
    lists = np.array([0, 1, 2], np.int32)
    arrays = [np.zeros(2, np.int64), *good, *good, lists, good.there, *good[:2], *good]
    for by in (9, -9):
        damaged = list(arrays)
        # keys, values, lists of headers: their ends are the 1st, 4th and 7th of these
        at = {1: 1, 2: 4, 6: 7, 7: 9}[column]
        damaged[at] = arrays[at] + by
        out = np.zeros(1000, np.uint8)
        state = np.zeros(6, np.int64)
        assert encode_records(state, np.arange(2), 2, out, 1000, *damaged) == -1
    state = np.zeros(6, np.int64)
    assert encode_records(state, np.array([0, 7]), 2, np.zeros(1000, np.uint8), 1000, *arrays) == -1

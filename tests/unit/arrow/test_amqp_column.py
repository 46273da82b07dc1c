"""The column `amqp`: what it has of AMQP's messages, and that nothing in them stops a read."""

import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pamqp.base
import pamqp.commands
import pamqp.header
import pika
import pytest

import headrace.arrow
from headrace.arrow.amqp.amqp_properties import PropertyColumns
from headrace.arrow.read.columns import AMQP_TYPE, COLUMNS, HEADERS, decoded, schema
from headrace.arrow.read.decode import PartitionDecoder
from headrace.kernels.choose import records_decoder_named
from headrace.model.nouns import LeaderEpoch
from headrace.record import batch as wire
from headrace.record.batch import Codec, Record, build
from headrace.wire.amqp.field_table import FieldTable, UInt8, decode_value, encode_table
from headrace.wire.amqp.properties import BASIC_CLASS, PROPERTIES_AT, WALK, Properties, make_header
from headrace.wire.amqp.record_headers import HEADER
from tests.support.client.open_topic import flush, poured
from tests.support.log.log import NOW_MS, World
from tests.support.queues.records import NOTHING, amqp_of, content_header, message

STRANGER = Record(0, 0, b"\xff\x00", b"of Kafka", (("trace", b"\x01"),))
AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def own(**fields: Any) -> dict[str, Any]:
    return NOTHING | {"exchange": "shop", "routing_key": "eu"} | fields


# What the clients' libraries encode

TABLE = {
    "text": "Zoë", "flag": True, "whole": 7, "long": 1 << 40, "double": 1.5, "void": None,
    "time": AT, "bytes": b"\xff", "exact": Decimal("3.14"),
    "nested": {"list": [1, "two", {"three": False}]}, "list": [],
}  # fmt: skip
TEXTS = [
    ("text", "Zoë"), ("flag", "true"), ("whole", "7"), ("long", "1099511627776"),
    ("double", "1.5"), ("void", None), ("time", "1700000000"), ("bytes", "\ufffd"),
    ("exact", "3.14"), ("nested", '{"list":[1,"two",{"three":false}]}'), ("list", "[]"),
]  # fmt: skip
PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 3,
    "correlation_id": "c-1", "reply_to": "answers", "expiration": "60000", "message_id": "m-1",
    "type": "order", "user_id": "guest", "app_id": "till",
}  # fmt: skip


def by_pika(headers: dict[str, Any]) -> bytes:
    headers = headers | {"double": "1.5"}  # it has no such kind
    properties = pika.BasicProperties(headers=headers, timestamp=int(AT.timestamp()), **PROPERTIES)
    return struct.pack(">HHQ", BASIC_CLASS, 0, 4) + b"".join(properties.encode())


def by_pamqp(headers: dict[str, Any]) -> bytes:
    headers = headers | {"bytes": bytearray(b"\xff")}  # its word for them
    names = {"message_type" if name == "type" else name: PROPERTIES[name] for name in PROPERTIES}
    properties = pamqp.commands.Basic.Properties(headers=headers, timestamp=AT, **names)
    header: bytes = pamqp.header.ContentHeader(0, 4, properties).marshal()
    return header


@pytest.mark.parametrize("encode", [by_pika, by_pamqp])
def test_all_properties_and_kinds_of_headers_come_as_clients_encode_them(
    encode: Callable[[dict[str, Any]], bytes],
) -> None:
    (row,) = amqp_of(message(encode(TABLE)))
    assert row is not None
    assert sorted(row["headers"]) == sorted(TEXTS)
    del row["headers"]
    assert row == {
        "exchange": "shop", "routing_key": "eu", "timestamp": AT, **PROPERTIES
    }  # fmt: skip


def test_every_property_of_a_message_but_the_reserved_one_has_a_field() -> None:
    names = [name for _, name, _ in WALK if name != "cluster_id"]
    assert AMQP_TYPE.names == ["exchange", "routing_key", *names]


def test_each_property_is_found_alone_and_with_the_reserved_one_behind_it() -> None:
    alone = [{name: value} for name, value in PROPERTIES.items()]
    records = [message(content_header(**each)) for each in alone]
    records += [message(content_header(**each, cluster_id="x")) for each in alone]
    assert amqp_of(*records) == [own(**each) for each in alone] * 2


def test_octets_are_numbers_up_to_255() -> None:
    header = content_header(priority=255, delivery_mode=128, headers={"n": UInt8(255)})
    (row,) = amqp_of(message(header))
    assert row == own(priority=255, delivery_mode=128, headers=[("n", "255")])


def test_no_headers_are_null_and_an_empty_table_of_them_is_an_empty_map() -> None:
    rows = amqp_of(message(), message(content_header(headers={})))
    assert rows == [own(), own(headers=[])]


# Whose records have it


def test_records_that_amqp_did_not_write_have_null() -> None:
    described = message(content_header(type="a"))
    assert amqp_of(STRANGER, described, STRANGER) == [None, own(type="a"), None]
    assert amqp_of(STRANGER, STRANGER) == [None, None]
    without_content_header = Record(0, 0, b"eu", b"body", (("amqp.exchange", b"shop"),))
    null = Record(0, 0, b"eu", b"body", ((HEADER, None), ("amqp.exchange", b"shop")))
    assert amqp_of(without_content_header, null) == [None, None]


def test_where_it_is_null_its_properties_are_null_by_themselves_too() -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=("amqp",))
    described = message(content_header(type="a", headers={}))
    assert list(decoder.feed(build([STRANGER, described, STRANGER]))) == []
    (batch,) = decoder.flush()
    assert batch.column("amqp").field("type").to_pylist() == [None, "a", None]
    assert batch.column("amqp").field("headers").to_pylist() == [None, [], None]


def test_the_routing_key_is_the_header_by_that_name_or_the_key() -> None:
    named_first = Record(
        0, 0, b"eu", b"body", (("amqp.routing.key", b"first"), (HEADER, content_header()))
    )
    rows = amqp_of(
        named_first,
        message(key=b"eu"),
        message(key=b"customer", amqp__routing__key=b"us"),
        message(key=None, amqp__routing__key=b"asia"),
        message(key=None),
        message(key=b"customer", amqp__routing__key=b""),
    )
    assert [row["routing_key"] for row in rows if row] == ["first", "eu", "us", "asia", "", ""]


def test_the_default_exchange_is_an_empty_text() -> None:
    assert amqp_of(message(exchange=b""), message(exchange=None)) == [own(exchange="")] * 2


def test_of_headers_with_one_name_the_last_counts() -> None:
    headers = [(HEADER, content_header(type=name)) for name in ("first", "last")]
    exchanges = [("amqp.exchange", b"first"), ("amqp.exchange", b"last")]
    twice = Record(0, 0, b"eu", b"body", (*headers, *exchanges))
    last = own(type="last", exchange="last")
    assert amqp_of(STRANGER, twice, message(), twice) == [None, last, own(), last]


# What cannot be read


def damaged() -> Iterator[tuple[str, bytes]]:
    header = content_header(content_type="text/plain", headers={"a": 1}, timestamp=5, priority=1)
    for name, size in (("nothing", 0), ("no size of the body", 7), ("no flags", PROPERTIES_AT - 1)):
        yield name, header[:size]
    for size in range(PROPERTIES_AT, len(header)):
        yield f"cut at {size}", header[:size]
    yield "a byte more", header + b"\x00"
    yield "a text that is too long", content_header(app_id="x")[:-2] + b"\xff\x00"
    table = content_header(headers={})
    for size in (1, (1 << 31) - 1, (1 << 32) - 1):
        yield f"a table of {size} bytes", table[:-4] + size.to_bytes(4)
    yield "flags of all that is not there", header[: PROPERTIES_AT - 2] + b"\xff\xff"


DAMAGED = dict(damaged())


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_content_header_that_cannot_be_read_leaves_the_place_and_its_neighbours(
    damage: str,
) -> None:
    header = DAMAGED[damage]
    whole = message(content_header(type="whole", timestamp=5, headers={"a": 1}))
    bad = message(header, amqp__routing__key=b"us")
    first, found, last = amqp_of(whole, bad, whole)
    assert found == own(routing_key="us")
    assert (
        first
        == last
        == own(type="whole", timestamp=datetime.fromtimestamp(5, UTC), headers=[("a", "1")])
    )
    # Behind the last one there is nothing: what is cut ends where all memory of them does.
    assert amqp_of(bad) == [own(routing_key="us")]


ENTRY = b"\x04nameS\x00\x00\x00\x05value"
BAD_TABLES = {
    "ends within a name": b"\x05name",
    "ends with a name": b"\x04name",
    "ends within a length": b"\x04nameS\x00\x00\x00",
    "ends within a text": ENTRY[:-1],
    "ends within a number": b"\x04nameI\x00\x00\x00",
    "a text as long as can be": b"\x04nameS\xff\xff\xff\xffvalue",
    "a kind that is none": b"\x04name?",
    "a name as long as can be": b"\xff",
    "a nested table that ends within a name": b"\x04nameF\x00\x00\x00\x02\x05n" + ENTRY,
    "too deep": encode_table({"deep": json.loads("[" * 66 + "]" * 66)}) + ENTRY,
}


@pytest.mark.parametrize("before", [b"", ENTRY], ids=["alone", "behind another"])
@pytest.mark.parametrize("damage", BAD_TABLES)
def test_a_table_that_cannot_be_read_leaves_the_other_properties(
    damage: str, before: bytes
) -> None:
    table = before + BAD_TABLES[damage]
    header = bytearray(content_header(headers={}, type="order"))
    at = header.index(b"\x00\x00\x00\x00\x05order")
    header[at : at + 4] = len(table).to_bytes(4) + table
    whole = message(content_header(headers={"name": "value", "n": 1}))
    expected = own(headers=[("name", "value"), ("n", "1")])
    assert amqp_of(whole, message(bytes(header)), whole) == [expected, own(type="order"), expected]


def test_tables_of_different_lengths_are_told_apart() -> None:
    tables: list[FieldTable | None] = [
        {"a": 1, "b": "two", "c": [3]}, {}, {"a": "1"}, None, {"b": True}, {"b": 2, "a": 1}
    ]  # fmt: skip
    rows = amqp_of(*(message(content_header(headers=table)) for table in tables))
    assert [row and row["headers"] for row in rows] == [
        [("a", "1"), ("b", "two"), ("c", "[3]")], [], [("a", "1")], None, [("b", "true")],
        [("b", "2"), ("a", "1")],
    ]  # fmt: skip


def test_of_equal_names_in_a_table_the_first_counts() -> None:
    twice = encode_table({"a": 1, "b": 2}) + encode_table({"b": 3, "a": "4", "c": 5})
    header = content_header(headers={})[:-4] + len(twice).to_bytes(4) + twice
    (row, _) = amqp_of(message(header), message(content_header(headers={"a": 6})))
    assert row == own(headers=[("a", "1"), ("b", "2"), ("c", "5")])


def test_times_after_the_year_9999_are_null() -> None:
    last = 253_402_300_799
    seconds = [0, last, last + 1, 1_700_000_000_000, (1 << 64) - 1]
    rows = amqp_of(*(message(content_header(timestamp=each)) for each in seconds))
    assert [row and row["timestamp"] for row in rows] == [
        datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        None, None, None,
    ]  # fmt: skip


def test_what_is_no_utf8_is_replaced() -> None:
    header = content_header(type="\udcff", app_id="whole", headers={"n\udcff": "v\udcfe"})
    rows = amqp_of(message(), message(header, exchange=b"e\xff", key=b"\xfe"))
    assert rows == [
        own(),
        own(
            exchange="e\ufffd", routing_key="\ufffd", type="\ufffd", app_id="whole",
            headers=[("n\ufffd", "v\ufffd")],
        ),
    ]  # fmt: skip


# What it costs


def test_properties_that_are_the_same_are_read_once_whatever_the_bodies_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    class Noted(PropertyColumns):
        def __init__(self, headers: Any) -> None:
            read.append(len(headers))
            super().__init__(headers)

    monkeypatch.setattr("headrace.arrow.amqp.amqp_column.PropertyColumns", Noted)
    kinds: list[dict[str, Any]] = [{}, {"type": "a"}, {"type": "b"}]
    headers = [
        make_header(size, Properties(**kind)) for size in (0, 5, 1 << 40) for kind in kinds
    ]  # fmt: skip
    assert amqp_of(*map(message, headers)) == [own(**kind) for kind in kinds] * 3
    assert read == [3]


def test_values_of_headers_that_are_the_same_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[bytes] = []

    def noted(value: bytes, at: int, end: int) -> Any:
        read.append(value)
        return decode_value(value, at, end)

    monkeypatch.setattr("headrace.arrow.amqp.amqp_tables.decode_value", noted)
    tables = [{"n": 1, "id": f"m{number}", "on": True} for number in range(5)]
    rows = amqp_of(*(message(content_header(headers=table)) for table in tables))
    assert rows == [own(headers=[("n", "1"), ("id", f"m{n}"), ("on", "true")]) for n in range(5)]
    assert len(read) == 2


def test_columns_that_are_not_asked_for_are_not_decoded_but_what_it_is_made_of() -> None:
    assert decoded(("value", "offset")) == ("value", "offset")
    assert decoded(("offset", "amqp")) == ("offset", "key", HEADERS)
    assert decoded(("amqp", HEADERS, "key")) == (HEADERS, "key")


# Where it comes


def test_columns_come_in_the_order_asked_with_what_it_is_made_of_or_without() -> None:
    described = message(content_header(type="a"))
    for columns in [
        ("amqp",), ("value", "amqp", "offset"), ("amqp", "key"), (*COLUMNS, HEADERS, "amqp"),
    ]:  # fmt: skip
        decoder = PartitionDecoder("t", 0, offset_from=0, columns=columns)
        assert list(decoder.feed(build([described]))) == []
        (batch,) = decoder.flush()
        assert batch.schema == schema(columns)
        (row,) = batch.to_pylist()
        assert row["amqp"] == own(type="a")
        assert row.get("key", b"eu") == b"eu"
        assert row.get(HEADERS, [{"key": HEADER}])[0]["key"] == HEADER


WAYS: dict[str, dict[str, Any]] = {
    "many batches at once": {},
    "each by itself": {"decode": "numba"},
    "in plain Python": {"decode": "python"},
    "over damage": {"on_corrupt": lambda error: None},
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("way", WAYS)
def test_it_comes_by_every_way_of_decoding(way: str, codec: Codec) -> None:
    how = dict(WAYS[way])
    if "decode" in how:
        if how["decode"] == "numba":
            pytest.importorskip("numba")
        how["decode"] = records_decoder_named(how["decode"])
    columns = ("offset", "amqp")
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=columns, rows_max=7, **how)
    kinds = [message(content_header(type=f"t{n}")) if n % 3 else STRANGER for n in range(10)]
    data = bytearray()
    for number in range(4):
        data += build(kinds, base_offset=number * 10, compression=codec)
    batches = [*decoder.feed(bytes(data)), *decoder.flush()]
    assert [batch.num_rows for batch in batches] == [7] * 5 + [5]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [
        {"offset": at, "amqp": own(type=f"t{at % 10}") if at % 10 % 3 else None}
        for at in range(40)
    ]  # fmt: skip


def test_what_was_handed_out_stays_while_the_memory_is_used_again() -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=("amqp",), rows_max=2)
    records = [message(content_header(type=f"t{n}"), key=b"%05d" % n) for n in range(60)]
    kept = [batch.column("amqp").field("routing_key") for batch in decoder.feed(build(records))]
    assert [key for array in kept for key in array.to_pylist()] == [f"{n:05}" for n in range(58)]


def test_a_topics_files_are_read_with_it(world: World, tmp_path: Path) -> None:
    log = world.log()
    records = [message(content_header(type="a")), STRANGER]
    view = memoryview(bytearray(build(records)))
    log.append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS)
    flush(world, log)
    reader = headrace.arrow.open(poured(world, tmp_path), "t", columns=("amqp", "value", "topic"))
    assert reader.schema == schema(("amqp", "value", "topic"), topic_dictionary=True)
    assert reader.read_all().to_pylist() == [
        {"amqp": own(type="a"), "value": b"body", "topic": "t"},
        {"amqp": None, "value": b"of Kafka", "topic": "t"},
    ]
    world.close()

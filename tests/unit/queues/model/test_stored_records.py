"""Declarations as bytes and back, whatever their names and arguments are."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.queues.model import stored_records
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    PolicyRecord,
    QueueRecord,
    Record,
)
from headrace.queues.model.stored_records import decode_record, encode_record, record_key
from headrace.wire.amqp.field_table import FieldTable, Int8, Long, encode_table

NAMES = st.binary(max_size=20).map(lambda name: name.decode("utf-8", "surrogateescape"))
ARGUMENTS = st.dictionaries(
    st.text("abc", max_size=5),
    st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.text(max_size=5),
    max_size=3,
)
IDS = st.integers(0, (1 << 63) - 1)
HOMES = st.just(()) | st.tuples(IDS, IDS, IDS)
REPLICAS = st.lists(IDS, max_size=3).map(tuple)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        ExchangeRecord,
        NAMES,
        st.just("topic"),
        st.booleans(),
        st.booleans(),
        ARGUMENTS,
        st.booleans(),
    ),
    st.builds(QueueRecord, NAMES, st.booleans(), ARGUMENTS, HOMES, REPLICAS, st.booleans()),
    st.builds(BindingRecord, NAMES, st.just("queue"), NAMES, NAMES, ARGUMENTS),
    st.builds(PolicyRecord, NAMES, st.booleans(), st.text(max_size=20), IDS),
)


@given(NAMES, RECORDS)
def test_a_record_comes_back_as_it_was(vhost: str, record: Record) -> None:
    assert decode_record(encode_record(vhost, record)) == (vhost, record)


def test_record_of_a_single_broker_has_the_fields_that_earlier_versions_know() -> None:
    exchange = ExchangeRecord("e", "topic", False, True, {})
    fields: FieldTable = {"vhost": "/", "kind": "exchange", "name": "e", "exchange_type": "topic"}
    table = encode_table(fields | {"auto_delete": False, "internal": True})
    length = struct.pack(">I", len(table))
    assert encode_record("/", exchange) == length + table + encode_table({})
    table = encode_table({"vhost": "/", "kind": "queue", "name": "q", "auto_delete": False})
    length = struct.pack(">I", len(table))
    assert encode_record("/", QueueRecord("q", False, {})) == length + table + encode_table({})
    planned = QueueRecord("q", False, {}, replicas=(1, 2))
    assert b"replicas" in encode_record("/", planned)


def test_the_kinds_of_arguments_and_the_deepest_tables_come_back() -> None:
    deep: FieldTable = {}
    for _ in range(63):
        deep = {"in": deep}
    arguments: FieldTable = {"long": Long(5), "byte": Int8(5), "int": 5, "deep": deep}
    _, record = decode_record(encode_record("/", QueueRecord("q", False, arguments)))
    assert isinstance(record, QueueRecord)
    kinds = {name: type(value) for name, value in record.arguments.items()}
    assert kinds == {"long": Long, "byte": Int8, "int": int, "deep": dict}
    assert record.arguments == arguments


@given(NAMES, RECORDS, NAMES, RECORDS)
def test_what_is_another_declaration_has_another_name(
    vhost: str, record: Record, other_vhost: str, other: Record
) -> None:
    def identity(vhost: str, record: Record) -> object:
        if isinstance(record, BindingRecord):
            return vhost, BindingRecord, record[:4], encode_record("", record)
        if isinstance(record, PolicyRecord):
            return vhost, PolicyRecord, record[:2]
        return vhost, type(record), record.name

    same = identity(vhost, record) == identity(other_vhost, other)
    assert (record_key(vhost, record) == record_key(other_vhost, other)) is same


def test_a_queue_has_its_name_whatever_its_arguments_are() -> None:
    known = record_key("/", QueueRecord("q", False, {}))
    assert record_key("/", QueueRecord("q", True, {"x-max-length": 1})) == known
    assert record_key("/", ExchangeRecord("q", "topic", False, False, {})) != known


def test_a_policy_has_its_name_whatever_its_value_is() -> None:
    known = record_key("/", PolicyRecord("q", False, "{}", 1))
    assert record_key("/", PolicyRecord("q", False, "", 0)) == known
    assert record_key("/", PolicyRecord("q", True, "{}", 1)) != known
    assert record_key("/", QueueRecord("q", False, {})) != known


def test_version_without_policies_does_not_decode_them(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_record("/", PolicyRecord("p", False, "{}", 1))
    monkeypatch.delitem(stored_records._KINDS, "policy")
    with pytest.raises(Malformed, match="is of kind 'policy' in vhost '/'"):
        decode_record(content)


def test_bindings_that_differ_in_anything_have_names_of_their_own() -> None:
    bindings = [
        BindingRecord("e", "queue", "q", "r", {}),
        BindingRecord("e", "queue", "qr", "", {}),
        BindingRecord("e", "exchange", "q", "r", {}),
        BindingRecord("e", "queue", "q", "r", {"x": 1}),
    ]
    assert len({record_key("/", binding) for binding in bindings}) == len(bindings)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\5ab",
        struct.pack(">I", 0),
        encode_record("/", QueueRecord("q", False, {}))[:-1],
        encode_record("/", PolicyRecord("p", False, "{}", 1)).replace(b"value", b"valua"),
        encode_record("/", QueueRecord("q", False, {})).replace(b"queue", b"quote"),
        encode_record("/", QueueRecord("q", False, {})).replace(b"auto_delete", b"auto_deleta"),
    ],
)
def test_what_is_no_record_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        decode_record(content)


@pytest.mark.parametrize("vhost", [5, None])
def test_a_vhost_that_is_no_text_is_malformed(vhost: int | None) -> None:
    fields = encode_table({"vhost": vhost, "kind": "queue", "name": "q", "auto_delete": False})
    content = struct.pack(">I", len(fields)) + fields + encode_table({})
    with pytest.raises(Malformed, match=f"in vhost {vhost}"):
        decode_record(content)

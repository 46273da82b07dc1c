"""Methods, properties and tables held against pamqp, both directions.

pamqp (an extra of `dev`) refuses names that RabbitMQ takes, and a table that went through it has
lost which integer was of which kind, and the ends of long names: what is drawn keeps to what it
can tell.
"""

from datetime import UTC, datetime
from typing import Any

import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.amqp import hot
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import FieldTable, Timestamp, decode_table, encode_table
from headrace.wire.amqp.frames import FRAME_HEADER, encode_frame
from headrace.wire.amqp.methods import METHODS, decode_method, encode_method
from headrace.wire.amqp.properties import Properties, make_header, read_properties
from tests.support.amqp.messages import content_frames, methods
from tests.support.examples import examples

KNOWN = [kind for ids, kind in METHODS.items() if ids.class_id != 30]
"""Methods that pamqp has: all but the class `access`."""
pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
OUTDATED = {
    "ticket": 0,
    "capabilities": "",
    "known_hosts": "",
    "out_of_band": "0",
    "channel_id": "0",
    "cluster_id": "",
    "insist": False,
}
"""Fields of no meaning, for which pamqp writes nothing else."""
THEIR_NAMES = {"type": "exchange_type"}
FEW = settings(max_examples=examples(15))
"""There are a hundred tests of them."""


def theirs_of(wire: bytes) -> Any:
    """Decode one frame with pamqp."""
    taken, _, frame = pamqp.frame.unmarshal(wire)
    assert taken == len(wire)
    return frame


def plain(value: Any) -> Any:
    """Return a value as both sides tell it.

    Long strings are bytes here and text there, and pamqp takes delivery tags for signed.
    """
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, int):
        return value % (1 << 64)
    return value


def fields_of(frame: Any, kind: type) -> list[Any]:
    """Return the fields that pamqp read, in our order."""
    names = kind.__annotations__
    return [getattr(frame, THEIR_NAMES.get(name, name)) for name in names]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_pamqp_reads_a_method_as_it_was_meant(kind: type, data: st.DataObject) -> None:
    method = data.draw(methods(kind))
    wire = encode_method(3, method)
    frame = theirs_of(wire)
    assert type(frame).__qualname__.replace(".", "") == kind.__name__
    ascii_only = all(value.isascii() for value in method if isinstance(value, bytes))
    if ascii_only:
        assert [plain(value) for value in fields_of(frame, kind)] == [*map(plain, method)]


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_a_method_written_by_pamqp_is_read_as_it_was_meant(kind: type, data: st.DataObject) -> None:
    plain_text = st.text("abc", max_size=9)
    tables = st.dictionaries(plain_text, st.integers(-5, 5))
    long_strings = plain_text.map(str.encode)
    method = data.draw(methods(kind, shortstr=plain_text, longstr=long_strings, table=tables))
    frame = theirs_of(encode_method(3, method))
    for name in kind.__annotations__.keys() & OUTDATED:
        setattr(frame, name, OUTDATED[name])
    wire = pamqp.frame.marshal(frame, 3)
    back = decode_method(wire[7:-1])
    assert type(back) is kind
    assert [*map(plain, back)] == [*map(plain, fields_of(frame, kind))]


PROPERTIES = st.builds(
    Properties,
    content_type=st.none() | st.text("abc/", max_size=9),
    headers=st.none()
    | st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(-99, 99)),
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(0, 9),
    correlation_id=st.none() | st.text("abc", max_size=9),
    expiration=st.none() | st.integers(0, 10**6).map(str),
    timestamp=st.none() | st.integers(0, 10**9),
    user_id=st.none() | st.text("abc", max_size=9),
    type=st.none(),
    cluster_id=st.none(),
)


@given(PROPERTIES, st.integers(0, 1 << 40))
def test_pamqp_reads_a_content_header_as_it_was_meant(properties: Properties, size: int) -> None:
    frame = theirs_of(encode_frame(FRAME_HEADER, 1, make_header(size, properties)))
    assert frame.body_size == size
    for name in Properties._fields[:-1]:
        value = getattr(frame.properties, "message_type" if name == "type" else name)
        if isinstance(value, datetime):
            value = int(value.timestamp())
        assert value == getattr(properties, name), name


@given(PROPERTIES)
def test_a_content_header_written_by_pamqp_is_read_as_it_was_meant(properties: Properties) -> None:
    # An empty text is none to pamqp.
    empty: dict[str, Any] = {
        name: None for name, value in properties._asdict().items() if value == ""
    }
    properties = properties._replace(**empty)
    values = {name: value for name, value in properties._asdict().items() if value is not None}
    if "timestamp" in values:
        values["timestamp"] = datetime.fromtimestamp(values["timestamp"], UTC)
    theirs = pamqp.commands.Basic.Properties(**values)
    wire = pamqp.frame.marshal(pamqp.header.ContentHeader(0, 5, theirs), 1)
    assert read_properties(wire[7:-1]) == properties


def test_pamqp_reads_every_kind_of_field() -> None:
    table: FieldTable = {
        "text": "größe",
        "flag": True,
        "whole": 7,
        "long": 1 << 40,
        "double": 1.5,
        "void": None,
        "time": Timestamp(1_700_000_000),
        "nested": {"list": [1, "two", {"three": 3}]},
    }
    frame = theirs_of(content_frames(1, b"", Properties(headers=table)))
    read = dict(frame.properties.headers)
    assert int(read.pop("time").timestamp()) == table["time"]
    assert read == {name: value for name, value in table.items() if name != "time"}
    assert decode_table(encode_table(table)) == table


@given(st.binary(max_size=9000), st.integers(0, 1 << 40), st.booleans())
def test_pamqp_reads_a_delivery(body: bytes, tag: int, redelivered: bool) -> None:
    header = make_header(len(body), Properties(delivery_mode=2))
    wire = hot.DeliverEncoder(5, "consumer", 4096).encode(
        tag, redelivered, Message("an exchange", "a.key", header, body)
    )
    frames = []
    while wire:
        taken, channel, frame = pamqp.frame.unmarshal(wire)
        assert channel == 5
        assert taken <= 4096
        wire = wire[taken:]
        frames.append(frame)
    deliver, content, *bodies = frames
    assert (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered) == (
        "consumer",
        tag,
        redelivered,
    )
    assert (deliver.exchange, deliver.routing_key) == ("an exchange", "a.key")
    assert content.body_size == len(body)
    assert b"".join(frame.value for frame in bodies) == body

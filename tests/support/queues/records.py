"""Records as they keep what AMQP said of a message, and what Arrow makes of them."""

from typing import Any

from headrace.arrow.read.columns import AMQP_TYPE
from headrace.arrow.read.decode import PartitionDecoder
from headrace.record.batch import Record, build
from headrace.wire.amqp.properties import Properties, make_header
from headrace.wire.amqp.record_headers import EXCHANGE, HEADER

NOTHING = dict.fromkeys(AMQP_TYPE.names)
"""A message of which nothing is known."""


def content_header(**properties: Any) -> bytes:
    return make_header(4, Properties(**properties))


def message(
    header: bytes | None = None,
    *,
    exchange: bytes | None = b"shop",
    key: bytes | None = b"eu",
    **more: bytes | None,
) -> Record:
    """A message's record; `more`: other headers of it, `__` for a point in their names."""
    headers = [(HEADER, content_header() if header is None else header)]
    if exchange is not None:
        headers.append((EXCHANGE, exchange))
    others = [(name.replace("__", "."), value) for name, value in more.items()]
    return Record(0, 0, key, b"body", (*headers, *others))


def amqp_of(*records: Record) -> list[dict[str, Any] | None]:
    """The column of these records, of one RecordBatch."""
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=("amqp",))
    assert list(decoder.feed(build(records))) == []
    (batch,) = decoder.flush()
    batch.validate(full=True)
    found: list[dict[str, Any] | None] = batch.column("amqp").to_pylist()
    return found

"""Messages of a batch by the layout of their neighbours are those of the records' full decoding."""

import random
from typing import NoReturn

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ports.disk import Buffer
from headrace.queue_stores import record_messages
from headrace.queue_stores.record_messages import Found, batch_of_messages, messages_in
from headrace.record.batch import build, new_record
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import CorruptBatch
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.examples import examples

NOW_MS = 1_700_000_000_000
BASE = 10

runs = st.lists(
    st.tuples(
        st.integers(1, 200),
        st.sampled_from(["", "k", "key", "x" * 100]),
        st.sampled_from(["", "orders"]),
        st.sampled_from([0, 1, 63, 64, 100]),
        st.sampled_from([None, "0", "70", "700"]),
        st.sampled_from([1, 2]),
    ),
    min_size=1,
    max_size=4,
)
"""Neighbours that are alike: their number, key, exchange, body size, expiration, delivery mode."""


def batch_of(kinds: list[tuple[int, str, str, int, str | None, int]]) -> tuple[int, bytearray]:
    messages: list[Message] = []
    for count, key, exchange, size, expiration, mode in kinds:
        header = make_header(size, Properties(delivery_mode=mode, expiration=expiration))
        messages += [
            Message(exchange, key, header, bytes((number % 251,)) * size) for number in range(count)
        ]
    batch = bytearray(batch_of_messages(messages, NOW_MS))
    batch[:8] = BASE.to_bytes(8)
    return len(messages), batch


def shown(found: Found) -> tuple[object, ...]:
    positions, messages, expiries, transient = found
    contents = [(each.exchange, each.routing_key, each.header, each.body) for each in messages]
    return positions, contents, expiries, transient


def in_full(batch: Buffer, at: int, settled: frozenset[int] = frozenset()) -> tuple[object, ...]:
    """Return the messages as each record by itself is decoded."""

    def refuse(*_: object) -> NoReturn:
        raise CorruptBatch("is decoded in full")

    plain, record_messages._plain_runs = record_messages._plain_runs, refuse  # type: ignore[assignment]
    try:
        return by_neighbours(batch, at, settled)
    finally:
        record_messages._plain_runs = plain


def ttl_ms_at(published_ms: int) -> int | None:
    """A TTL that is shorter for later messages, as after a change of a policy."""
    return 500 if published_ms < 100 else 50


def by_neighbours(
    batch: Buffer, at: int, settled: frozenset[int] = frozenset()
) -> tuple[object, ...]:
    is_settled = settled.__contains__ if settled else None
    return shown(messages_in(batch, at, ttl_ms_at=ttl_ms_at, arrived_ms=5, is_settled=is_settled))


@settings(max_examples=examples(150))
@given(runs, st.integers(0, 300), st.frozensets(st.integers(BASE, 100)))
def test_messages_by_neighbours_are_those_of_records(
    kinds: list[tuple[int, str, str, int, str | None, int]], at: int, settled: frozenset[int]
) -> None:
    count, batch = batch_of(kinds)
    found = by_neighbours(batch, at, settled)
    assert found == in_full(batch, at, settled)
    if at <= BASE and not settled:
        assert found[0] == [*range(BASE, BASE + count)]


@settings(max_examples=examples(150))
@given(runs, st.integers(0), st.integers(1, 255))
def test_damaged_batch_is_decoded_as_its_records_are(
    kinds: list[tuple[int, str, str, int, str | None, int]], place: int, change: int
) -> None:
    _, batch = batch_of(kinds)
    batch[HEADER_BYTES + place % (len(batch) - HEADER_BYTES)] ^= change
    assert by_neighbours(batch, 0) == in_full(batch, 0)


def test_records_of_other_programs_are_decoded_as_before() -> None:
    draw = random.Random(1)
    records = [
        new_record(
            draw.choice([None, b"", b"body"]),
            draw.choice([None, b"key"]),
            NOW_MS + draw.choice([0, 0, 1]),
            draw.choice([(), [("a", b"1")], [("amqp.header", b"other")]]),
        )
        for _ in range(300)
    ]
    batch = build(records, base_offset=BASE)
    assert by_neighbours(batch, 0) == in_full(batch, 0)
    gaps = [each._replace(offset=BASE + 2 * at) for at, each in enumerate(records)]
    compacted = build(gaps, base_offset=BASE, keep_offsets=True)
    assert by_neighbours(compacted, 0) == in_full(compacted, 0)

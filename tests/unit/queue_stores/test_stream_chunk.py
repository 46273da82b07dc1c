"""Stretches of a stream in memory: offsets in headers, what is kept and what goes."""

import pytest

from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.queue_stores.stream.stream_chunk import (
    CHUNK_BYTES,
    Chunk,
    ChunkCache,
    with_offsets,
)
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import Long
from headrace.wire.amqp.properties import (
    Properties,
    body_size_of,
    header_value,
    make_header,
    read_properties,
)

PROPERTIES = Properties(
    content_type="text/plain", delivery_mode=2, correlation_id="c", timestamp=5, app_id="a"
)


def message(body: bytes, properties: Properties = PROPERTIES) -> Message:
    return Message("e", "k", make_header(len(body), properties), body)


def chunk(begin: int, following: int, size: int = 100) -> Chunk:
    positions = range(begin, following)
    return Chunk(begin, following, positions, [message(b"x" * size)] * len(positions))


# Offsets


def test_neighbours_with_equal_headers_and_others_have_each_its_own_offset() -> None:
    other = PROPERTIES._replace(headers={"own": 1, "x-stream-offset": "mine"}, app_id="other")
    found = with_offsets(
        [3, 4, 5, 9, 1 << 40, 1 << 41],
        [message(b"a"), message(b"b"), message(b"c"), message(b"dd", other), message(b"ee", other),
         message(b"f")],
    )  # fmt: skip
    assert [header_value(each.header, "x-stream-offset") for each in found] == [
        3, 4, 5, 9, 1 << 40, 1 << 41,
    ]  # fmt: skip
    assert all(b"\x0fx-stream-offsetl" in each.header for each in found), "of RabbitMQ's kind"
    assert [each.body for each in found] == [b"a", b"b", b"c", b"dd", b"ee", b"f"]
    for each, properties in zip(found, [PROPERTIES] * 3 + [other] * 2 + [PROPERTIES], strict=True):
        assert body_size_of(each.header) == len(each.body)
        read = read_properties(each.header)
        assert read._replace(headers=None) == properties._replace(headers=None)
        assert (read.headers or {}).get("own") == (properties.headers or {}).get("own")
        assert (each.exchange, each.routing_key) == ("e", "k")


def test_an_offset_takes_its_place_where_its_own_bytes_are_found_elsewhere() -> None:
    headers = {"a": b"\x0fx-stream-offsetl" + bytes(8), "b": {"x-stream-offset": Long(0)}}
    raw = Properties(headers=headers)  # type: ignore[arg-type]
    for each in with_offsets([5, 6], [message(b"a", raw), message(b"b", raw)]):
        read = read_properties(each.header).headers or {}
        assert read["b"] == {"x-stream-offset": 0}
        assert read["x-stream-offset"] in {5, 6}
        assert read["a"] == read_properties(message(b"", raw).header).headers["a"]  # type: ignore[index]


def test_a_header_whose_table_nobody_can_read_gives_way_to_one_with_the_offset() -> None:
    good = make_header(1, Properties(headers={"k": "value"}))
    bad = good.replace(b"\x01kS", b"\xf0kS")
    for each in with_offsets([7, 8], [Message("", "k", bad, b"a"), Message("", "k", bad, b"b")]):
        assert header_value(each.header, "x-stream-offset") in {7, 8}
        assert body_size_of(each.header) == 1
    unread = Chunk(0, 1, [0], [Message("", "k", bad, b"a")])
    assert unread.part(0, 5, 1, {""})[0] == [0], "it has no value of a filter"


# Parts


def test_a_part_is_of_what_is_asked_for_and_no_more() -> None:
    positions = [2, 3, 5, 8]
    stretch = Chunk(1, 10, positions, [message(b"%d" % position) for position in positions])
    for at, count, below, found in (
        (0, 9, 99, positions),
        (3, 9, 99, [3, 5, 8]),
        (4, 2, 99, [5, 8]),
        (2, 2, 99, [2, 3]),
        (2, 9, 5, [2, 3]),
        (2, 9, 6, [2, 3, 5]),
        (9, 9, 99, []),
        (5, 9, 3, []),
    ):
        part, messages = stretch.part(at, count, below, None)
        assert list(part) == found
        assert [int(each.body) for each in messages] == found
    assert (0 in stretch, 1 in stretch, 9 in stretch, 10 in stretch) == (False, True, True, False)


def test_a_filter_counts_what_it_finds_not_what_it_passes() -> None:
    properties = [Properties(headers={"x-stream-filter-value": value}) for value in "abab"]
    stretch = Chunk(0, 4, range(4), [message(b"m", each) for each in properties])
    assert stretch.part(0, 2, 4, {"b"})[0] == [1, 3]
    assert stretch.part(0, 1, 4, {"b"})[0] == [1]
    assert stretch.part(0, 9, 3, {"b"})[0] == [1]


# The cache


def test_a_stretch_counts_headers_bodies_and_something_for_each_message() -> None:
    short, long = message(b"a"), message(b"b" * 1000, PROPERTIES._replace(app_id="a" * 200))
    sizes = [len(each.body) + len(each.header) for each in (short, long)]
    stretch = Chunk(0, 9, [3, 5], [short, long])
    assert stretch.bytes == sum(sizes) + 2 * MESSAGE_BYTES + CHUNK_BYTES


def test_a_cache_finds_the_stretch_that_tells_of_an_offset() -> None:
    cache = ChunkCache(WindowsBytes())
    for begin, following in ((10, 20), (0, 10), (30, 40)):
        cache.add(chunk(begin, following))
    for offset, first in ((0, 0), (9, 0), (10, 10), (19, 10), (20, None), (30, 30), (40, None)):
        found = cache.find(offset)
        assert (None if found is None else found.begin) == first


def test_what_was_used_longest_ago_goes_first_and_bytes_are_counted_for_all() -> None:
    windows = WindowsBytes()
    size = chunk(0, 10).bytes
    cache = ChunkCache(windows, bytes_max=3 * size)
    for begin in (0, 10, 20):
        cache.add(chunk(begin, begin + 10))
    assert cache.find(0) is not None
    cache.add(chunk(30, 40))
    assert [cache.find(offset) is not None for offset in (0, 10, 20, 30)] == [
        True, False, True, True,
    ]  # fmt: skip
    assert windows.bytes == cache.bytes == 3 * size
    cache.clear()
    assert (windows.bytes, cache.bytes, cache.find(0)) == (0, 0, None)


def test_where_all_queues_together_have_no_room_a_cache_keeps_what_came_last() -> None:
    windows = WindowsBytes(bytes_max=0)
    cache = ChunkCache(windows)
    for begin in (0, 10):
        cache.add(chunk(begin, begin + 10))
    assert cache.find(0) is None
    assert cache.find(10) is not None
    assert windows.bytes == chunk(0, 10).bytes


def test_a_stretch_that_comes_again_takes_the_place_of_the_first() -> None:
    cache = ChunkCache(WindowsBytes())
    cache.add(chunk(0, 5))
    cache.add(chunk(0, 10))
    assert cache.find(7) is not None
    assert cache.bytes == chunk(0, 10).bytes


@pytest.mark.parametrize(("below", "left"), [(0, 3), (9, 3), (10, 2), (25, 1), (30, 0), (99, 0)])
def test_what_lies_below_all_readers_goes(below: int, left: int) -> None:
    windows = WindowsBytes()
    cache = ChunkCache(windows)
    for begin in (0, 10, 20):
        cache.add(chunk(begin, begin + 10))
    cache.pass_to(below)
    assert windows.bytes == left * chunk(0, 10).bytes
    assert [cache.find(offset) is not None for offset in (0, 10, 20)] == [
        each >= 3 - left for each in range(3)
    ]

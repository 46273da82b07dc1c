"""Extents: messages at neighbouring positions, in memory and as they are on disk."""

from array import array
from math import inf

import pytest

from headrace.queue_stores.memory.spill_extent import Content, DamagedExtent, decode, encode
from headrace.wire.amqp.content import Message
from tests.support.queues.spill import number_of
from tests.support.queues.spill_files import Files, extent_of


def test_messages_come_back_as_they_were_with_the_times_at_which_they_expire() -> None:
    extent = extent_of(1, 2, 3, expiries=[5.25, inf, 7.125])
    content = decode(encode(extent.content()), 3)
    assert content.expiries == array("d", [5.25, inf, 7.125])
    for before, after in zip(extent.content().messages, content.messages, strict=True):
        assert all(getattr(before, name) == getattr(after, name) for name in Message.__slots__)
    assert decode(encode(extent_of(1).content()), 1).expiries is None


@pytest.mark.parametrize("position", [0, 10, 16, 17, 60, 61, 200, -1])
def test_a_changed_byte_is_damage_and_not_another_message(position: int) -> None:
    data = bytearray(encode(extent_of(1, 2, 3).content()))
    data[position] ^= 1
    content: Content | None = None
    try:
        content = decode(bytes(data), 3)
    except DamagedExtent:
        return
    # The base offset is not under the checksum, and nobody looks at it.
    assert position < 8
    assert [number_of(message) for message in content.messages] == [1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 60, 61, 300])
def test_a_part_is_damage(size: int) -> None:
    data = encode(extent_of(1, 2, 3, expiries=[1, 2, 3]).content())
    for part in (data[:size], data[:-8], data + bytes(8)):
        with pytest.raises(DamagedExtent):
            decode(part, 3)


def test_another_extent_in_its_place_is_damage() -> None:
    with pytest.raises(DamagedExtent, match="2 messages, 3 were written"):
        decode(encode(extent_of(1, 2).content()), 3)


def test_what_was_settled_before_the_write_keeps_the_places_of_the_others() -> None:
    extent = extent_of(7, 8, 9, base=7)
    extent.settle([8])
    files = Files()
    files.write(extent)
    content = files.read(extent)
    assert isinstance(content, Content)
    extent.take(content)
    positions, messages = extent.read(7, 9)
    assert (list(positions), [number_of(each) for each in messages]) == ([7, 9], [7, 9])


# What of it is settled


def test_the_lowest_that_is_left_is_found_around_what_is_settled() -> None:
    extent = extent_of(0, 1, 2, 3, base=10)
    assert [extent.lowest(position) for position in (0, 10, 13)] == [10, 10, 13]
    extent.settle([10, 12])
    assert [extent.lowest(position) for position in (0, 11, 12, 13)] == [11, 11, 13, 13]
    extent.settle([13])
    assert extent.lowest(12) is None
    assert extent.left == 1


def test_an_extent_in_memory_frees_each_message_and_one_on_disk_all_at_the_end() -> None:
    waiting, written = extent_of(0, 1, 2), extent_of(0, 1, 2)
    one = waiting.full // 3
    assert [waiting.settle([1]), waiting.settle([1]), waiting.settle([0, 2])] == [one, 0, 2 * one]
    files = Files()
    files.files.write([written], files.errors.append)
    files.disk.settle()
    assert [written.settle([1]), written.settle([0]), written.settle([2])] == [0, 0, 3 * one]
    assert (waiting.held, written.held, written.is_at_hand) == (0, 0, False)


def test_an_extent_is_settled_as_a_whole() -> None:
    extent = extent_of(0, 1, 2, base=5)
    extent.settle([6])
    assert extent.settle(range(5, 8)) == 2 * extent.full // 3
    assert (extent.left, extent.held) == (0, 0)


# Files

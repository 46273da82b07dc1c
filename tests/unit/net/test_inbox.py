"""What a connection keeps of a read when it cannot hand everything over."""

import pytest

from headrace.net.buffers import BufferPool
from headrace.net.inbox import FIRST_ROOM_BYTES, Inbox


@pytest.mark.parametrize("rest", [100, FIRST_ROOM_BYTES - 1, FIRST_ROOM_BYTES, 200_000])
@pytest.mark.parametrize("need", [0, 50, 100_000, 300_000])
def test_all_that_was_received_is_kept_however_small_the_frame_before_it(
    rest: int, need: int
) -> None:
    """A client that is asked to wait leaves many whole frames behind the first one."""
    inbox = Inbox(memoryview(bytearray(1 << 18)), BufferPool(1 << 22))
    bytes_sent = bytes(range(256)) * 1024
    space = inbox.space()
    space[: rest + 7] = bytes_sent[: rest + 7]
    inbox.filled = rest + 7
    assert inbox.keep(7, need)
    assert bytes(inbox.view[: inbox.filled]) == bytes_sent[7 : rest + 7]
    assert len(inbox.space()) > 0


@pytest.mark.parametrize(("need", "fits"), [((1 << 19) - 4, True), ((1 << 19) - 3, False)])
def test_a_large_frame_fits_with_the_next_ones_length_or_not_at_all(need: int, fits: bool) -> None:
    pool = BufferPool(4096 + (1 << 19))
    pool.take(4096)
    inbox = Inbox(memoryview(bytearray(1 << 18)), pool)
    inbox.filled = FIRST_ROOM_BYTES
    assert inbox.keep(0, need) is fits


def test_a_frame_of_unknown_length_has_room_for_its_length_and_no_more() -> None:
    inbox = Inbox(memoryview(bytearray(1 << 18)), BufferPool(1 << 22))
    inbox.filled = 10
    assert inbox.keep(9, 0)
    assert (inbox.filled, len(inbox.space())) == (1, 4)


def test_the_bytes_behind_one_that_was_handled_come_to_the_front_of_the_same_buffer() -> None:
    inbox = Inbox(memoryview(bytearray(1 << 18)), BufferPool(1 << 22))
    inbox.filled = 10
    assert inbox.keep(0, 100_000)
    view = inbox.view
    assert len(view) == FIRST_ROOM_BYTES + 4
    view[:10] = b"0123456789"
    assert inbox.keep(1, 100_000)
    assert inbox.view is view, "the buffer has just the room it needs: it is kept"
    assert bytes(view[: inbox.filled]) == b"123456789"


def test_a_buffer_without_room_for_another_length_is_changed_for_a_larger_one() -> None:
    inbox = Inbox(memoryview(bytearray(1 << 18)), BufferPool(1 << 22))
    inbox.filled = FIRST_ROOM_BYTES - 1
    assert inbox.keep(0, 0)
    inbox.filled += 2
    view = inbox.view
    assert len(view) == FIRST_ROOM_BYTES + 4
    assert inbox.keep(0, 0)
    assert len(inbox.view) > len(view)
    assert len(inbox.space()) >= 4

"""What a log's queue has in memory: its room, its bounds, and what it lets go."""

from headrace.queue_stores.log.message_window import MessageWindow, WindowsBytes
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from tests.support.queues.log import message

SIZE = MESSAGE_BYTES + len(message("a").body) + len(message("a").header)


def filled(window: MessageWindow, count: int, at: int = 0) -> MessageWindow:
    """Put messages in, each of which expires at the second of its position."""
    positions = range(at, at + count)
    expiries = [float(position) for position in positions]
    window.extend(positions, [message("a")] * count, expiries, at + count)
    return window


def test_a_window_has_room_until_its_own_bound_or_that_of_all_is_reached_to_the_byte() -> None:
    assert not filled(MessageWindow(0, 2 * SIZE), 2).has_room
    assert filled(MessageWindow(0, 2 * SIZE + 1), 2).has_room
    assert not filled(MessageWindow(0, windows=WindowsBytes(2 * SIZE)), 2).has_room
    assert filled(MessageWindow(0, windows=WindowsBytes(2 * SIZE + 1)), 2).has_room


def test_a_window_that_is_released_has_room_and_takes_nothing_off_again() -> None:
    windows = WindowsBytes()
    window = filled(MessageWindow(0, SIZE, windows), 1)
    window.release()
    assert window.has_room
    window.release()
    assert windows.bytes == 0


def test_a_position_between_two_messages_has_no_expiry() -> None:
    window = MessageWindow(0)
    window.extend([1, 3], [message("a")] * 2, [1.0, 3.0], 4)
    assert [window.expires_at(at) for at in range(5)] == [None, 1.0, None, 3.0, None]


def test_what_is_passed_is_let_go_and_the_rest_keeps_its_place() -> None:
    window = filled(MessageWindow(0), 3000)
    window.pass_to(1000)
    assert list(window.slice(1000, 1, 3000)[0]) == [1000]
    window.pass_to(1600)
    assert len(window._messages) == 1400
    assert list(window.slice(1600, 2, 3000)[0]) == [1600, 1601]
    assert window.expires_at(1700) == 1700.0
    assert list(window.pass_to(1603)[0]) == [1600, 1601, 1602]


def test_what_is_read_to_never_goes_back() -> None:
    window = filled(MessageWindow(0), 10)
    window.pass_to(5)
    assert window.following == 10
    window.pass_to(20)
    assert (window.following, window.is_empty) == (20, True)


def test_a_window_grows_to_some_mebibytes_and_no_further() -> None:
    mebibyte = message("a" * (1 << 20))
    window = MessageWindow(0)
    window.extend([0], [mebibyte], [None], 1)
    assert window.has_room
    window.extend(range(1, 16), [mebibyte] * 15, [None] * 15, 16)
    assert not window.has_room


def test_however_many_windows_there_are_none_grows_beyond_what_all_may_hold() -> None:
    mebibyte, windows = message("a" * (1 << 20)), WindowsBytes()
    for _ in range(128):
        MessageWindow(0, windows=windows).extend([0], [mebibyte], [None], 1)
    assert not MessageWindow(0, windows=windows).has_room

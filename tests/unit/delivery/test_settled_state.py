"""Frames of settled positions: their bytes in this version and the one before, and their names."""

from headrace.delivery.settled_runs import runs_of
from headrace.delivery.settled_state import (
    FrameName,
    SettledState,
    decode_frames,
    encode_frame,
    find_frames,
    fold,
)
from headrace.queue_stores.log.settled_files import settled_path
from tests.support.log.log import content
from tests.support.queues.log import LogQueue


def test_frames_are_read_as_written_and_a_torn_one_ends_them() -> None:
    runs = runs_of([(7, 9), (13, 14)])
    state = SettledState(4, 5, 20, runs, ((11, 3),), 15, 8, 900, True, True)
    frame = encode_frame(state)
    assert [found for found, _ in decode_frames(frame + frame)] == [state, state]
    for size in range(len(frame), 2 * len(frame)):
        assert len(list(decode_frames((frame + frame)[:size]))) == 1
    folded = fold(frame, lambda epoch: 9 if epoch == 4 else 99).state
    assert (folded.start, folded.handed_out, folded.returns) == (5, 9, ())
    assert folded.runs == runs_of([(7, 8)])


FRAME_WITHOUT_NUMBER = bytes.fromhex(
    "0000006a5736ef5701030000000400000000000000050000000000000014000000000000000f0000000000000008"
    "00000000000003840000000000000000000000020000000100000000000000070000000000000009000000000000"
    "000d000000000000000e000000000000000b00000003"
)
"""A frame of a version without copies, as it was written by that version."""
FRAME_7 = bytes.fromhex(
    "0000006a23cfdaa301030000000400000000000000050000000000000014000000000000000f0000000000000008"
    "00000000000003840000000000000007000000020000000100000000000000070000000000000009000000000000"
    "000d000000000000000e000000000000000b00000003"
)
"""The same state with the number 7; the version without copies has read the same state in it."""


def test_frames_with_and_without_a_number_differ_in_eight_bytes() -> None:
    runs = runs_of([(7, 9), (13, 14)])
    state = SettledState(4, 5, 20, runs, ((11, 3),), 15, 8, 900, True, True)
    assert [found for found, _ in decode_frames(FRAME_WITHOUT_NUMBER)] == [state]
    assert encode_frame(state) == FRAME_WITHOUT_NUMBER
    assert encode_frame(state._replace(number=7)) == FRAME_7
    at = [at for at in range(8, len(FRAME_7)) if FRAME_7[at] != FRAME_WITHOUT_NUMBER[at]]
    assert at == [61], "only the eight bytes that were 0 differ, and the checksum"


def test_file_that_begins_without_numbers_goes_on_with_them() -> None:
    folded = fold(FRAME_WITHOUT_NUMBER, lambda _: 99).state
    assert folded.name == FrameName(4, 0)
    folded = fold(FRAME_WITHOUT_NUMBER + FRAME_7, lambda _: 99).state
    assert folded.name == FrameName(4, 7)
    names = [frame.name for frame in find_frames(FRAME_WITHOUT_NUMBER + FRAME_7 + b"torn")]
    assert names == [FrameName(4, 0), FrameName(4, 7)]


def test_frames_of_a_queue_are_numbered_one_by_one_also_after_a_start() -> None:
    here = LogQueue()
    here.published(*"abc")
    here.gets()
    here.acknowledge(1)
    here.wait()
    here = here.killed()
    here.gets()
    here.acknowledge(1)
    here.wait()
    frames = list(find_frames(content(here.world.disk, settled_path(here.partition.log.directory))))
    numbers = [frame.name.number for frame in frames]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {frame.name.leader_epoch for frame in frames} == {1, 2}

"""Kills and power cuts at each write of a follower's copy of settled positions."""

from headrace.delivery.settled_state import FrameName, find_frames
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import content
from tests.support.queues.followers import FollowerKit, frame

BODIES = [frame(1, whole=True), *(frame(number) for number in range(2, 6)), frame(6, whole=True)]
BODIES += [frame(7), frame(8)]


def name(number: int) -> FrameName:
    return FrameName(1, number)


def files() -> set[bytes]:
    """Return each prefix of the leader's file, before and after its second complete frame."""
    before, after = BODIES[:5], BODIES[5:]
    return {b"".join(some[:count]) for some in (before, after) for count in range(len(some) + 1)}


def whole_frames(disk: SimDisk, path: str) -> tuple[bytes, FrameName]:
    """Return a file's bytes up to its last whole frame, and that frame's name."""
    data = content(disk, path) if disk.exists(path) else b""
    last, end = name(0), 0
    for found in find_frames(data):
        last, end = found.name, found.end
    return data[:end], last


def test_copy_is_a_prefix_of_the_leaders_frames_with_all_confirmed_ones() -> None:
    here = FollowerKit()
    here.world.settle()
    disk = here.world.disk
    begun = len(disk.ops)
    confirmed: list[tuple[int, FrameName]] = []
    for number, body in enumerate(BODIES, 1):
        if number in (1, 6):
            answer = here.take_whole(body, name(number))
        else:
            follows = name(number - 1)
            answer = here.answer(here.question(body, follows=follows, last=name(number)))
        assert answer.last == name(number)
        confirmed.append((len(disk.ops), answer.last))
    for cut in range(begun, len(disk.ops) + 1):
        promised = max((last for ops, last in confirmed if ops <= cut), default=name(0))
        kill = [disk.left_by_a_kill()] if cut == len(disk.ops) else []
        for left in [*crash_states(disk, cut, seed=1, samples=3), *kill]:
            found, last = whole_frames(left, here.path)
            assert found in files(), cut
            assert last >= promised, cut


def test_copy_goes_on_after_any_power_cut() -> None:
    here = FollowerKit()
    here.take_whole(BODIES[0], name(1))
    begun = len(here.world.disk.ops)
    here.answer(here.question(BODIES[1], follows=name(1), last=name(2)))
    for cut in range(begun, len(here.world.disk.ops) + 1):
        for left in crash_states(here.world.disk, cut, seed=2, samples=3):
            again = FollowerKit(here.world.after_power_cut(left))
            last = again.answer(again.question()).last
            assert last in (name(1), name(2)), cut
            again.answer(again.question(BODIES[1], follows=name(1), last=name(2)))
            again.answer(again.question(BODIES[2], follows=name(2), last=name(3)))
            assert again.file == b"".join(BODIES[:3]), cut

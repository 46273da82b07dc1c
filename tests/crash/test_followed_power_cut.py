"""Power cuts while a follower copies a log in which compaction has left gaps."""

from headrace.log.follower_append import append_as_follower
from headrace.model.nouns import Offset
from headrace.testing.disk_crash import crash_states
from tests.support.log.compaction import COMPACTED, put, with_gaps
from tests.support.log.log import NOW_MS, PLACE, World, read, values


def test_what_was_told_to_be_flushed_is_there_after_any_power_cut_gaps_and_all() -> None:
    leading, following = with_gaps(later=3), World(config=COMPACTED)
    leader, log = leading.log(), following.log()
    for number in range(3):
        put(leader, (b"last %d" % number, b"v" * 300))
    whole = values(leader)
    following.flush(log)
    begun = len(following.disk.ops)
    told: list[tuple[int, int]] = []
    gaps = 0
    while log.end_offset < leader.end_offset:
        before = log.end_offset
        found = read(leader, before, 300, below=leader.end_offset)
        append_as_follower(log, memoryview(bytes(found.data)), NOW_MS)
        gaps += len(values(log, before)) < log.end_offset - before
        following.flush(log)
        told.append((len(following.disk.ops), log.flushed_offset))
    assert gaps > 1
    for cut in range(begun, len(following.disk.ops) + 1):
        promised = max((upto for ops, upto in told if ops <= cut), default=0)
        left_behind = [following.disk.left_by_a_kill()] if cut == len(following.disk.ops) else []
        for left in [*crash_states(following.disk, cut, seed=1, samples=2), *left_behind]:
            after = World(left, config=COMPACTED)
            assert not after.directory.quarantined, (cut, after.directory.quarantined)
            if promised:
                again = after.directory.logs[PLACE]
                assert again.end_offset >= promised, cut
                held = values(again)
                assert held == {at: it for at, it in whole.items() if at < again.end_offset}, cut
                data = read(leader, Offset(again.end_offset), 500, below=leader.end_offset).data
                if data:
                    append_as_follower(again, memoryview(bytes(data)), NOW_MS)
            after.close()
    leading.close()
    following.close()

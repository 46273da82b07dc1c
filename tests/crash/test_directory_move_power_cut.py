"""A move between directories that a kill or a power cut ends, at each operation of the disk."""

from dataclasses import replace

import pytest

from headrace.broker import directory_move
from headrace.testing.disk_crash import crash_states
from tests.support.cluster.moves import MovingBroker, started_on
from tests.support.log.log import CONFIG, PLACE


def test_wherever_a_move_is_cut_one_directory_holds_all_that_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory_move, "PIECE_BYTES", 400)
    here = MovingBroker(config=replace(CONFIG, file_delete_delay_ms=0))
    here.lead()
    here.append(*[b"first"] * 5)
    for number in range(6):
        here.append(b"%d" % number * 90, producer=(7, 0, number))
    here.settle()
    here.partition.delete_records(3)
    here.settle()
    begun, told = len(here.disk.ops), [(len(here.disk.ops), here.log.high_watermark)]
    target, next_number = here.move(), 6
    while PLACE not in target.logs or here.disk.busy or here.log.flushed_offset < 5:
        if next_number < 9 and not here.log.cutting:
            here.append(b"%d" % next_number * 90, producer=(7, 0, next_number))
            next_number += 1
        if not here.clock.turn():
            here.step_until(lambda: True)
            here.disk.settle(1)
        told.append((len(here.disk.ops), here.log.high_watermark))
    here.append(b"later")
    here.settle()
    told.append((len(here.disk.ops), here.log.high_watermark))
    whole = here.held()
    for cut in range(begun, len(here.disk.ops) + 1):
        promised = max(upto for ops, upto in told if ops <= cut)
        for left in crash_states(here.disk, cut, seed=1, samples=0):
            after = started_on(left, here.config)
            held_by = [each for each in after.directories if PLACE in each.logs]
            assert len(held_by) == 1, (cut, after.names())
            assert not any(each.quarantined for each in after.directories), cut
            after.lead(9)
            assert after.log.start_offset == 3, cut
            assert after.log.end_offset >= promised, (cut, promised)
            held = after.held()
            assert held == {at: it for at, it in whole.items() if at < after.log.end_offset}, cut
            after.settle()  # a move that was interrupted begins anew
            assert after.held() == held, cut
            after.close()
    here.close()

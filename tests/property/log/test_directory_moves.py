"""A partition that moves between directories while it leads, follows, is cut, read and killed."""

from random import Random

import pytest

from headrace.broker import directory_move
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from tests.support.cluster.moves import MovingBroker
from tests.support.log.log import PLACE

STEPS = 60


@pytest.mark.parametrize("seed", range(6))
def test_nothing_acknowledged_is_lost_whatever_comes_between(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_move, "PIECE_BYTES", 300)
    draw = Random(seed)
    here, epoch, number = MovingBroker(), 0, 0
    here.lead()
    written: dict[int, bytes] = {}
    acknowledged = start = moves = 0
    for _ in range(STEPS):
        what = draw.randrange(12)
        try:
            if what < 4:
                number += 1
                value = b"%d" % number * draw.randrange(1, 40)
                end = here.append(value, value)
                for at in [at for at in written if at >= end - 2]:
                    del written[at]  # cut or lost, and never acknowledged
                written |= {end - 2: value, end - 1: value}
            elif what == 4:
                here.move(draw.choice(here.directories))
            elif what == 5:
                epoch += 1
                here.lead(epoch)
            elif what == 6 and not here.log.cutting and here.broker.partitions:
                epoch += 1
                here.follow(epoch)
                cut = Offset(draw.randint(here.log.high_watermark, here.log.end_offset))
                here.source.truncate_logs([(here.log, cut)], lambda _: None)
                here.settle()
                epoch += 1
                here.lead(epoch)
            elif what == 7:
                start = here.partition.delete_records(draw.randint(start, here.log.high_watermark))
                here.settle()
            elif what == 8 and draw.random() < 0.3:
                here = here.killed()
                epoch += 1
                here.lead(epoch)
            elif what == 9:
                here.settle()
                here.clock.advance(0.1)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
        for _ in range(draw.randrange(12)):
            before = here.log
            here.step(draw)
            moves += here.log is not before
        assert here.log.high_watermark >= acknowledged
        acknowledged = here.log.high_watermark
        held = here.held()
        for at in range(start, acknowledged):
            assert held[at] == written[at], (at, acknowledged)
        assert not any(directory.fenced for directory in here.directories)
        assert sum(PLACE in directory.logs for directory in here.directories) == 1
    here.clock.advance(1)
    here.settle()
    here.close()
    assert moves or seed

"""What the high watermark waits for may be changed while a partition is led."""

from tests.support.processes.broker import append
from tests.unit.broker.test_flush_intervals import Place


def test_where_flushes_are_waited_for_no_longer_what_is_there_is_committed_at_once() -> None:
    place = Place()
    role = place.partition.role
    role.flush_on_ack(True)
    append(place.partition)
    assert place.log.high_watermark == 0
    role.flush_on_ack(False)
    assert place.log.high_watermark == place.log.end_offset == 1


def test_where_flushes_are_waited_for_again_what_is_not_flushed_is_flushed() -> None:
    place = Place()
    append(place.partition)
    assert place.log.high_watermark == 1
    place.partition.role.flush_on_ack(True)
    assert place.unflushed() == 0
    assert place.log.high_watermark == 1

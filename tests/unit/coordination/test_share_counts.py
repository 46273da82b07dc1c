"""The counters of share groups begin at nothing and count records."""

from headrace.coordination.share.acknowledgements import Ack, AckKind
from headrace.coordination.share.counts import ShareCounts


def test_nothing_is_counted_before_anything_is_done() -> None:
    counts = ShareCounts()
    assert (counts.acquired, counts.timed_out) == (0, 0)
    assert counts.settled == dict.fromkeys(AckKind, 0)


def test_both_ends_of_what_is_acknowledged_are_counted() -> None:
    counts = ShareCounts()
    counts.acknowledged(Ack(5, 5, AckKind.ACCEPT))
    counts.acknowledged(Ack(7, 9, AckKind.REJECT))
    counts.acknowledged(Ack(6, 6, AckKind.ACCEPT))
    assert counts.settled[AckKind.ACCEPT] == 2
    assert counts.settled[AckKind.REJECT] == 3
    assert counts.settled[AckKind.RELEASE] == 0

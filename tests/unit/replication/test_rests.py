"""Partitions that rest after an error: each is asked for again when its own rest is over."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from headrace.replication.source import Source
from tests.support.groups_kit import HandClock


def test_each_of_several_rests_ends_in_its_time() -> None:
    clock = HandClock()
    now = clock.monotonic()
    changed: list[str] = []
    source: Any = SimpleNamespace(
        _rest_timer=None,
        _resting={"a": now + 1, "b": now + 3, "c": now + 3, "d": now + 7},
        members={key: SimpleNamespace(resting=True) for key in "abcd"},
        changed=changed.append,
        _broker=SimpleNamespace(clock=clock),
    )
    source._end_rests = partial(Source._end_rests, source)
    source._arm_rest = partial(Source._arm_rest, source)
    source._arm_rest()
    for seconds, over in ((0.5, ""), (1.0, "a"), (1.0, "a"), (1.0, "abc"), (5.0, "abcd")):
        clock.advance(seconds)
        assert changed == list(over)
        assert [key for key in "abcd" if not source.members[key].resting] == list(over)
    assert source._rest_timer is None
    assert source._resting == {}

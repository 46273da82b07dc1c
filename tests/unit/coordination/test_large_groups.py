"""Groups so large that their assignor works on a thread."""

import pytest

from headrace.coordination.groups.assignors import ASSIGNORS
from headrace.coordination.groups.modern import target_assignment
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, all_owned, cluster, group_of, settle
from tests.support.coordination.groups_kit import Room

E = ErrorCode


def room() -> Room:
    return Room(image=cluster({"t": 4}))


def test_a_large_groups_assignor_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "AT_ONCE_MAX", 0)
    place = room()
    one, two, three = (Consumer(place, name) for name in "abc")
    one.beat()
    assert one.count == 4, "the first of a group is made at once"
    place.disk.hold = True
    for late in (two, three):
        assert late.beat().error is E.NONE
    group = group_of(place)
    assert (group.epoch, group.target_epoch, group.is_assigning) == (4, 2, True)
    assert one.beat().error is E.NONE
    assert (one.count, two.count) == (4, 0)
    assert two.interval_ms == 1000, "it is asked to come again soon"
    two.leave()
    place.disk.release()
    assert (group.epoch, group.target_epoch) == (5, 5)
    assert "b" not in group.target
    settle(one, three)
    assert (one.count, three.count) == (2, 2)
    assert len(all_owned(one, three)) == 4


def test_a_group_may_be_told_not_to_use_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "AT_ONCE_MAX", 0)
    place = room()
    place.group_settings["g"] = {"consumer.assignor.offload.enable": "0"}
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    place.disk.hold = True
    two.beat()
    assert group_of(place).target_epoch == 3


def test_what_a_thread_found_is_not_for_another_group_of_that_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_assignment, "AT_ONCE_MAX", 0)
    place = room()
    former = [Consumer(place, "a"), Consumer(place, "b")]
    former[0].beat()
    place.disk.hold = True
    former[1].beat()
    assert group_of(place).is_assigning
    for one in former:
        one.leave()
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    assert codes == [E.NONE]
    newer = Consumer(place, "c")
    newer.beat()
    written, target_epoch = len(place.partition.pairs()), group_of(place).target_epoch
    place.disk.release()
    assert len(place.partition.pairs()) == written
    assert group_of(place).target_epoch == target_epoch


def test_an_assignor_that_meets_a_bug_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(target_assignment, "AT_ONCE_MAX", 0)
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    with monkeypatch.context() as broken:
        broken.setitem(ASSIGNORS, "uniform", lambda spec: spec.nonsense)
        two.beat()
    assert "the assignor failed" in caplog.text
    settle(one, two)
    assert (one.count, two.count) == (2, 2)

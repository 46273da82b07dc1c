"""Groups of the newer protocol in the log: answers wait for it, a kill loses nothing it has."""

from headrace.coordination.groups import records as classic_records
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, group_of, numbers, room, settle

E = ErrorCode


def test_an_answer_waits_for_the_log() -> None:
    place = room()
    place.partition.hold = True
    one = Consumer(place, "a")
    one.send()
    assert not one.waiting
    place.partition.flush()
    assert one.waiting[0].error is E.NONE


def test_what_the_log_refuses_has_not_happened() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert two.beat().error is E.COORDINATOR_NOT_AVAILABLE
    group = group_of(place)
    assert (list(group.members), group.epoch, group.target_epoch) == (["a"], 2, 2)
    place.partition.refusal = None
    settle(one, two)
    assert (one.count, two.count) == (2, 2)


def test_a_group_the_log_refuses_is_not_there() -> None:
    place = room()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    Consumer(place, "a").beat()
    assert not place.groups.shard("g").modern


def test_after_a_kill_members_go_on_where_they_were() -> None:
    place = room()
    one = Consumer(place, "a", topics=None, regex="t|other", instance="i")
    two = Consumer(place, "b", topics=frozenset({"t"}))
    settle(one, two)
    later = place.restart()
    for each in (one, two):
        each.room = later
        had = dict(each.owned)
        assert each.beat().error is E.NONE
        assert each.owned == had
    before, after = group_of(place), group_of(later)
    assert after.epoch == before.epoch
    assert after.members == before.members
    assert after.target == before.target
    assert after.regexes == before.regexes


def test_after_a_kill_who_is_not_heard_of_is_out() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    later = place.restart()
    one.room = later
    later.clock.advance(40)
    one.beat()
    later.clock.advance(6)
    settle(one)
    assert numbers(one) == {0, 1, 2, 3}


def test_a_consumer_group_whose_deletion_the_log_refuses_stays() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.commit("a", one.epoch, version=9)
    one.leave()
    codes: list[ErrorCode] = []
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    place.groups.delete("g", codes.append)
    assert codes == [E.COORDINATOR_NOT_AVAILABLE]
    assert (list(place.groups.shard("g").modern), place.committed()) == (["g"], 7)
    place.partition.refusal = None
    place.groups.delete("g", codes.append)
    assert codes[1:] == [E.NONE]
    assert (list(place.groups.shard("g").modern), place.committed()) == ([], None)


def test_the_later_record_decides_the_kind_of_a_replayed_group() -> None:
    """Compaction may have removed the tombstones of a group that was replaced."""
    place = room()
    Consumer(place, "a").beat()
    value = classic_records.group_metadata(ClassicGroup("g", 0), {})
    place.groups.shard("g").journal.append_now([value], lambda _: None)
    shard = place.restart().groups.shard("g")
    assert (list(shard.groups), list(shard.modern)) == (["g"], [])

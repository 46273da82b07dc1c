"""One step of a member towards its target: what it keeps, gives up, gets and waits for."""

import pytest

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.model import (
    NEW,
    Member,
    MemberStanding,
    MemberState,
    MemberSubscription,
    OwnedPartitions,
    Standing,
    Subscription,
)
from headrace.coordination.groups.consumer.reconcile import Towards, next_standing
from headrace.coordination.groups.consumer.validate import check_epoch
from headrace.model.errors import ApiError, ErrorCode

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN
BOTH = frozenset({T, U})


def parts(*numbers: int, topic: bytes = T) -> Partitions:
    return {topic: frozenset(numbers)}


def group_with(others: OwnedPartitions) -> ConsumerGroup:
    """A group in which another member has these partitions."""
    group = ConsumerGroup("g")
    group.apply(MemberSubscription("other", Subscription()))
    group.apply(MemberStanding("other", Standing(3, 2, assigned=others)))
    return group


def step(
    standing: Standing,
    target: Partitions,
    owned: Partitions | None,
    *,
    epoch: int = 5,
    topics: frozenset[bytes] = BOTH,
    changed: bool = False,
    others: OwnedPartitions | None = None,
) -> Standing:
    member = Member("m", Subscription(), standing)
    return next_standing(
        group_with(others or {}), member, Towards(epoch, target, topics, owned, changed)
    )


def test_a_new_member_gets_what_is_free_of_its_target() -> None:
    found = step(NEW, parts(0, 1), {}, others={T: {1: 3}, U: {0: 3}})
    assert found == Standing(5, 0, UNRELEASED, {T: {0: 5}})
    assert step(NEW, parts(0, 1), {}) == Standing(5, 0, STABLE, {T: {0: 5, 1: 5}})


def test_a_member_that_has_all_it_is_to_have_moves_to_the_targets_epoch() -> None:
    has = Standing(4, 3, STABLE, {T: {0: 2}})
    assert step(has, parts(0), None) == Standing(5, 4, STABLE, {T: {0: 2}})
    assert step(has, parts(0), None, epoch=4) is has


def test_what_is_to_go_goes_first_and_what_is_to_come_waits_for_that() -> None:
    has = Standing(4, 3, STABLE, {T: {0: 2, 1: 4}})
    for owned in (None, parts(0, 1), parts(1)):
        told = step(has, parts(0, 2), owned)
        assert told == Standing(4, 4, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert step(has, parts(0, 2), parts(0)) == Standing(5, 4, STABLE, {T: {0: 2, 2: 5}})


def test_who_owns_still_what_it_is_to_give_up_stays_where_it_is() -> None:
    told = Standing(4, 4, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert step(told, parts(0, 2), parts(0, 1)) is told
    assert step(told, parts(0, 2), None) is told
    assert step(told, parts(0, 2), parts(0)) == Standing(5, 4, STABLE, {T: {0: 2, 2: 5}})


def test_what_a_member_is_about_to_give_up_itself_is_free_for_it() -> None:
    told = Standing(4, 4, UNREVOKED, {T: {0: 2}}, {T: {1: 4}})
    assert step(told, parts(0, 1), parts(0)) == Standing(5, 4, STABLE, {T: {0: 2, 1: 5}})


def test_who_waits_goes_on_waiting_until_it_has_all() -> None:
    waits = Standing(5, 4, UNRELEASED, {T: {0: 5}})
    held = step(waits, parts(0, 1), parts(0), others={T: {1: 3}})
    assert held == Standing(5, 5, UNRELEASED, {T: {0: 5}})
    assert step(waits, parts(0, 1), parts(0)) == Standing(5, 5, STABLE, {T: {0: 5, 1: 5}})
    less = step(waits, {}, parts(0), epoch=6)
    assert less == Standing(5, 5, UNREVOKED, {}, {T: {0: 5}})


def test_a_topic_it_subscribes_to_no_longer_is_taken_whatever_the_target_says() -> None:
    has = Standing(5, 4, STABLE, {T: {0: 2}, U: {0: 3}})
    both = {**parts(0), **parts(0, topic=U)}
    left = step(has, both, None, topics=frozenset({T}), changed=True)
    assert left == Standing(5, 5, UNREVOKED, {T: {0: 2}}, {U: {0: 3}})
    gone = step(has, both, parts(0), topics=frozenset({T}), changed=True)
    assert gone == Standing(5, 5, STABLE, {T: {0: 2}})
    assert step(has, both, None, changed=True) is has
    assert step(has, both, None, topics=frozenset({T})) is has
    further = step(has, both, None, epoch=6, topics=frozenset({T}))
    assert further == Standing(5, 5, UNREVOKED, {T: {0: 2}}, {U: {0: 3}})


def test_what_is_taken_while_something_is_being_given_up_is_added_to_that() -> None:
    told = Standing(4, 3, UNREVOKED, {T: {0: 2}, U: {1: 2}}, {U: {0: 3}})
    more = step(told, {}, None, topics=frozenset({T}), changed=True)
    assert more == Standing(4, 4, UNREVOKED, {T: {0: 2}}, {U: {0: 3, 1: 2}})
    assert step(told, {}, None, changed=True) is told


@pytest.mark.parametrize("owned", [None, parts(0)])
def test_a_state_of_a_later_version_is_left_only_from_nothing(owned: Partitions | None) -> None:
    strange = Standing(4, 3, UNKNOWN, {T: {0: 2}})
    with pytest.raises(ApiError) as fenced:
        step(strange, parts(0), owned)
    assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(strange, parts(0), {}) == Standing(5, 4, STABLE, {T: {0: 2}})


@pytest.mark.parametrize(
    ("epoch", "owned", "passes"),
    [
        (5, None, True),
        (0, parts(9), True),
        (3, parts(0), True),
        (3, {}, True),
        (3, None, False),
        (3, parts(0, 1), False),
        (3, parts(0, topic=U), False),
        (4, parts(0), False),
        (6, parts(0), False),
        (2, parts(0), False),
    ],
)
def test_one_epoch_behind_is_let_pass_with_nothing_but_its_own(
    epoch: int, owned: Partitions | None, passes: bool
) -> None:
    member = Member("m", Subscription(), Standing(5, 3, STABLE, {T: {0: 2}}))
    if passes:
        check_epoch(member, epoch, owned)
        return
    with pytest.raises(ApiError) as fenced:
        check_epoch(member, epoch, owned)
    assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    which = "greater" if epoch > 5 else "smaller"
    assert f"a {which} member epoch ({epoch})" in str(fenced.value)


def test_an_epoch_the_member_skipped_to_is_no_former_one() -> None:
    member = Member("m", Subscription(), Standing(5, 7, STABLE, {T: {0: 2}}))
    with pytest.raises(ApiError):
        check_epoch(member, 7, parts(0))

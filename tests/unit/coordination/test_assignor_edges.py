"""Who is given what where two want the same, or more want it than there is."""

from collections import Counter
from collections.abc import Mapping

import pytest

from headrace.coordination.groups.assignors import mixed, range_assignor, uniform
from headrace.coordination.groups.assignors.spec import Assignor, GroupSpec, MemberSpec
from headrace.coordination.groups.share.assignor import Part, assign

T, U = b"t" * 16, b"u" * 16
P0, P1, Q0 = (T, 0), (T, 1), (U, 0)


def of_one_topic(
    count: int,
    present: Mapping[str, set[int]],
    *,
    instances: Mapping[str, str] | None = None,
    other: str | None = None,
) -> GroupSpec:
    """All subscribe to one topic of `count` partitions; `other` to a second one too."""
    members = {
        member: MemberSpec(
            frozenset({T, U} if member == other else {T}),
            {T: frozenset(had)} if had else {},
            (instances or {}).get(member),
        )
        for member, had in present.items()
    }
    return GroupSpec(members, {T: count, U: 1})


# Groups of consumers


@pytest.mark.parametrize("other", [None, "b"])
def test_what_two_had_is_kept_by_one(other: str | None) -> None:
    spec = of_one_topic(4, {"a": {0, 1}, "b": {0, 1}}, other=other)
    given = uniform.assign(spec)
    assert given["a"][T] >= {0, 1}
    assert len(given["a"][T]) == (3 if other else 2), "the other topic counts for who reads it"
    assert given["b"][T] == {0, 1, 2, 3} - given["a"][T]


@pytest.mark.parametrize("other", [None, "b"])
def test_what_is_not_there_any_more_is_kept_by_nobody(other: str | None) -> None:
    spec = of_one_topic(2, {"a": {0, 2}, "b": {1, 3}}, other=other)
    given = uniform.assign(spec)
    assert [given[member][T] for member in "ab"] == [{0}, {1}]


@pytest.mark.parametrize("other", [None, "c"])
def test_who_comes_is_given_as_many_and_what_stays_is_not_moved(other: str | None) -> None:
    spec = of_one_topic(6, {"a": {0, 1, 2}, "b": {3, 4, 5}, "c": set()}, other=other)
    given = uniform.assign(spec)
    assert given["a"][T] <= {0, 1, 2}
    assert given["b"][T] <= {3, 4, 5}
    loads = sorted(sum(map(len, parts.values())) for parts in given.values())
    assert loads == ([2, 2, 3] if other else [2, 2, 2])


@pytest.mark.parametrize("count", [8, 9, 20])
def test_of_mixed_subscriptions_who_has_another_topic_is_given_fewer_of_the_shared(
    count: int,
) -> None:
    spec = of_one_topic(count, {"a": set(), "b": set()}, other="b")
    given = mixed.assign(spec)
    loads = [sum(map(len, given[member].values())) for member in "ab"]
    assert sum(loads) == count + 1
    assert max(loads) - min(loads) <= 1
    assert given["b"][U] == {0}
    assert given["a"][T] | given["b"][T] == set(range(count))


def test_ranges_begin_with_static_members_in_the_order_of_their_instances() -> None:
    present: dict[str, set[int]] = {"a": set(), "b": set(), "c": set()}
    spec = of_one_topic(5, present, instances={"c": "x", "b": "y"})
    given = range_assignor.assign(spec)
    assert [given[member][T] for member in "cba"] == [{0, 1}, {2, 3}, {4}]


@pytest.mark.parametrize("assignor", [uniform.assign, range_assignor.assign])
def test_nobody_is_given_nothing(assignor: Assignor) -> None:
    assert assignor(GroupSpec({}, {})) == {}


# Share groups


def readers(given: Mapping[str, frozenset[Part]]) -> Counter[Part]:
    """How many read each partition."""
    return Counter(part for mine in given.values() for part in mine)


def test_where_subscriptions_are_mixed_those_left_over_are_spread_over_the_partitions() -> None:
    wanted = {member: frozenset({P0, P1}) for member in "abcdef"} | {"x": frozenset({Q0})}
    given = assign(wanted, {})
    assert readers(given) == {P0: 3, P1: 3, Q0: 1}
    assert all(len(mine) == 1 for mine in given.values())


def test_where_subscriptions_are_mixed_who_reads_beside_another_keeps_what_it_had() -> None:
    wanted = {member: frozenset({P0, P1}) for member in "abcdef"} | {"x": frozenset({Q0})}
    former = dict.fromkeys("ade", frozenset({P0})) | dict.fromkeys("bcf", frozenset({P1}))
    given = assign(wanted, former)
    assert {member: given[member] for member in former} == former


def test_no_more_keep_what_they_had_than_leaves_somebody_for_the_others() -> None:
    wanted = {member: frozenset({P0, P1}) for member in "abcdef"} | {"x": frozenset({Q0})}
    given = assign(wanted, dict.fromkeys("abcdef", frozenset({P0})))
    assert readers(given) == {P0: 3, P1: 3, Q0: 1}
    assert given["a"] == {P0}


def test_who_has_two_more_gives_one_up() -> None:
    parts = frozenset((T, index) for index in range(4))
    wanted = {"a": parts, "b": parts | {Q0}}
    given = assign(wanted, {"a": parts})
    assert sorted(map(len, given.values())) == [2, 3]
    assert given["a"] < parts
    assert given["b"] >= {Q0}

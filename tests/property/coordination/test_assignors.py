"""Assignors: everything is read, by one member each, evenly, and little moves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.groups.assignors import ASSIGNORS
from headrace.coordination.groups.assignors.spec import Assignment, GroupSpec, MemberSpec

TOPICS = [bytes([n]) * 16 for n in range(5)]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS})
MEMBERS = st.lists(st.integers(0, 30), max_size=12, unique=True)
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), max_size=5)


def name(number: int) -> str:
    return f"m{number:02}"


@st.composite
def histories(draw: st.DrawFn, *, same: bool) -> list[GroupSpec]:
    """A group through some changes; what it is assigned is filled in by `life`."""
    specs = []
    for _ in range(draw(st.integers(1, 4))):
        counts = draw(COUNTS)
        everybody = draw(SUBSCRIPTIONS)
        members = {
            name(one): MemberSpec(
                everybody if same else draw(SUBSCRIPTIONS),
                {},
                f"i{one}" if draw(st.booleans()) else None,
            )
            for one in draw(MEMBERS)
        }
        specs.append(GroupSpec(members, counts))
    return specs


def with_present(spec: GroupSpec, present: Assignment) -> GroupSpec:
    members = {
        one: MemberSpec(member.topics, present.get(one, {}), member.instance_id)
        for one, member in spec.members.items()
    }
    return GroupSpec(members, spec.partitions)


def places(assignment: Assignment) -> list[tuple[bytes, int]]:
    return [
        (topic, part)
        for partitions in assignment.values()
        for topic, parts in partitions.items()
        for part in parts
    ]


def check_complete(spec: GroupSpec, assignment: Assignment) -> None:
    assert assignment.keys() == spec.members.keys()
    given_out = places(assignment)
    assert len(given_out) == len(set(given_out)), "one reader each"
    read = {topic for member in spec.members.values() for topic in member.topics}
    assert set(given_out) == {
        (topic, part) for topic in read for part in range(spec.partitions[topic])
    }
    for member_id, partitions in assignment.items():
        assert partitions.keys() <= spec.members[member_id].topics
        assert all(partitions.values()), "topics without partitions are left out"


def sizes(assignment: Assignment) -> dict[str, int]:
    return {one: sum(map(len, parts.values())) for one, parts in assignment.items()}


@given(histories(same=True))
def test_uniform_is_even_and_keeps_what_may_stay(specs: list[GroupSpec]) -> None:
    present: Assignment = {}
    for bare in specs:
        spec = with_present(bare, present)
        result = ASSIGNORS["uniform"](spec)
        check_complete(spec, result)
        if result:
            size = sizes(result)
            assert max(size.values()) - min(size.values()) <= 1
            assert_sticky(spec, result)
        assert ASSIGNORS["uniform"](with_present(spec, result)) == result, "nothing to move"
        present = result


def assert_sticky(spec: GroupSpec, result: Assignment) -> None:
    """As much stays with each member as an even share lets it."""
    total = len(places(result))
    quota, extra = divmod(total, len(spec.members))
    allowed_extra = extra
    for member_id, member in spec.members.items():
        had = {
            (topic, part)
            for topic, parts in member.present.items()
            for part in parts
            if topic in member.topics and part < spec.partitions[topic]
        }
        kept = had & set(places({member_id: result[member_id]}))
        if len(had) > quota and allowed_extra:
            allowed_extra -= 1
            assert len(kept) == quota + 1
        else:
            assert len(kept) == min(len(had), quota)


@given(histories(same=False))
def test_uniform_leaves_nobody_two_short_of_a_topic_it_reads(specs: list[GroupSpec]) -> None:
    present: Assignment = {}
    for bare in specs:
        spec = with_present(bare, present)
        result = ASSIGNORS["uniform"](spec)
        check_complete(spec, result)
        size = sizes(result)
        for owner, partitions in result.items():
            for topic in partitions:
                for other, member in spec.members.items():
                    if topic in member.topics:
                        assert size[owner] - size[other] <= 1
        assert ASSIGNORS["uniform"](with_present(spec, result)) == result, "nothing to move"
        present = result


@given(histories(same=False))
def test_range_gives_runs_and_splits_like_topics_alike(specs: list[GroupSpec]) -> None:
    for spec in specs:
        result = ASSIGNORS["range"](spec)
        check_complete(spec, result)
        for partitions in result.values():
            for parts in partitions.values():
                assert len(parts) == max(parts) - min(parts) + 1, "a run"
        for one in TOPICS:
            share = Counter({member: len(got.get(one, ())) for member, got in result.items()})
            readers = [m for m, member in spec.members.items() if one in member.topics]
            if readers:
                held = [share[member] for member in readers]
                assert max(held) - min(held) <= 1
            for other in TOPICS:
                others = [m for m, member in spec.members.items() if other in member.topics]
                if readers == others and spec.partitions[one] == spec.partitions[other]:
                    assert all(got.get(one) == got.get(other) for got in result.values())


def test_the_numbers_of_nine_partitions_and_two_members() -> None:
    """Three topics of three partitions: range gives 6 and 3, uniform 5 and 4."""
    counts = dict.fromkeys(TOPICS[:3], 3)
    topics = frozenset(TOPICS[:3])
    spec = GroupSpec({"a": MemberSpec(topics, {}), "b": MemberSpec(topics, {})}, counts)
    assert sorted(sizes(ASSIGNORS["range"](spec)).values()) == [3, 6]
    assert sorted(sizes(ASSIGNORS["uniform"](spec)).values()) == [4, 5]

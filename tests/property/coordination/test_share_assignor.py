"""Who in a share group reads what: covered, balanced, and kept where that is possible."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordination.groups.share.assignor import Part, assign
from tests.support.examples import examples

common = settings(max_examples=examples(150))
names = st.sampled_from("abcdefghij")
parts = st.builds(
    lambda topic, index: (bytes([topic]) * 16, index), st.integers(0, 2), st.integers(0, 5)
)
former = st.dictionaries(names, st.frozensets(parts, max_size=6), max_size=8)
alike = st.builds(
    lambda members, wanted: dict.fromkeys(members, wanted),
    st.sets(names, min_size=1, max_size=8),
    st.frozensets(parts, max_size=12),
)
mixed = st.dictionaries(names, st.frozensets(parts, max_size=8), min_size=1, max_size=8)


@common
@given(st.one_of(alike, mixed), former)
def test_everything_is_read_and_everybody_reads(
    wanted: dict[str, frozenset[Part]], before: dict[str, frozenset[Part]]
) -> None:
    given_out = assign(wanted, before)
    assert set(given_out) == set(wanted)
    for member, mine in given_out.items():
        assert mine <= wanted[member], "not subscribed to"
        assert mine or not wanted[member], "nothing to read"
    assert frozenset().union(*given_out.values()) == frozenset().union(*wanted.values())


@common
@given(alike, former)
def test_loads_are_even_where_all_subscribe_to_the_same(
    wanted: dict[str, frozenset[Part]], before: dict[str, frozenset[Part]]
) -> None:
    given_out = assign(wanted, before)
    loads = [len(mine) for mine in given_out.values()]
    assert max(loads) - min(loads) <= 1
    readers = Counter(part for mine in given_out.values() for part in mine)
    if readers:
        assert max(readers.values()) - min(readers.values()) <= 1


@common
@given(st.one_of(alike, mixed), former)
def test_nothing_moves_when_nothing_changes(
    wanted: dict[str, frozenset[Part]], before: dict[str, frozenset[Part]]
) -> None:
    once = assign(wanted, before)
    assert assign(wanted, once) == once


def test_a_member_that_leaves_gives_what_it_had_and_the_rest_stays() -> None:
    all_parts = frozenset((bytes(16), index) for index in range(6))
    three = assign(dict.fromkeys("abc", all_parts), {})
    two = assign(dict.fromkeys("ab", all_parts), three)
    assert three["a"] < two["a"]
    assert three["b"] < two["b"]

"""Records of share groups: what is written is read, and what is changed can be taken back."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.share import records
from headrace.coordination.groups.share.group import ShareGroup
from headrace.coordination.groups.share.model import (
    Change,
    ShareMemberStanding,
    ShareMemberSubscription,
    ShareStanding,
    ShareSubscription,
    StatePartitions,
    TopicState,
)
from headrace.record.compression import CorruptBatch
from tests.support.client.consumer_kit import topic_id

EPOCHS = st.integers(0, 2**31 - 1)
TEXTS = st.text(max_size=8)
NAMES = st.sampled_from(["a", "b", "ü"])
TOPICS = st.sampled_from([topic_id("t"), topic_id("u")])
PARTS = st.frozensets(st.tuples(TOPICS, st.integers(0, 300)), max_size=5)
SUBSCRIPTIONS = st.builds(
    ShareSubscription,
    st.none() | TEXTS,
    TEXTS,
    TEXTS,
    st.frozensets(NAMES).map(sorted).map(tuple),
)
STANDINGS = st.builds(ShareStanding, EPOCHS, EPOCHS, PARTS)
STATES = st.dictionaries(
    TOPICS,
    st.builds(TopicState, TEXTS, st.frozensets(st.integers(0, 9)).map(sorted).map(tuple)),
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(GroupEpoch, EPOCHS, st.integers(-(2**63), 2**63 - 1)),
    st.builds(TargetEpoch, EPOCHS, st.integers(0, 2**62)),
    st.builds(ShareMemberSubscription, NAMES, st.none() | SUBSCRIPTIONS),
    st.builds(MemberTarget, NAMES, st.none() | PARTS),
    st.builds(ShareMemberStanding, NAMES, st.none() | STANDINGS),
    st.builds(StatePartitions, st.none() | STATES),
    st.just(GroupEpoch(None)),
    st.just(TargetEpoch(None)),
)


@given(TEXTS.filter(bool), CHANGES)
def test_what_is_written_is_read(group_id: str, change: Change) -> None:
    key, value = records.encode(group_id, change)
    assert records.decode(key, value) == (group_id, change)


@given(CHANGES, st.data())
def test_what_is_damaged_is_said_to_be(change: Change, data: st.DataObject) -> None:
    key, value = records.encode("g", change)
    if value is None:
        return
    broken = bytearray(value)
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(value) - 1))
    for bad in (bytes(broken), value[:cut]):
        try:
            records.decode(key, bad)
        except CorruptBatch:
            continue


def picture(group: ShareGroup) -> dict[str, object]:
    """All but the timers."""
    return {name: value for name, value in vars(group).items() if name != "timers"}


@given(st.lists(CHANGES, max_size=12), st.lists(CHANGES, max_size=6))
def test_what_is_changed_can_be_taken_back(before: list[Change], then: list[Change]) -> None:
    group, twin = ShareGroup("g"), ShareGroup("g")
    for change in before:
        group.apply(change)
        twin.apply(change)
    undo = []
    for change in then:
        if isinstance(change, ShareMemberSubscription) and change.subscription is None:
            # As a turn does it: what a member was told goes before the member itself.
            undo.append(group.apply(ShareMemberStanding(change.member_id, None)))
        undo.append(group.apply(change))
    for change in reversed(undo):
        group.apply(change)
    assert picture(group) == picture(twin)


@given(st.lists(CHANGES, max_size=20))
def test_the_records_of_a_groups_life_are_the_group(changes: list[Change]) -> None:
    group, replayed = ShareGroup("g"), ShareGroup("g")
    for change in changes:
        group.apply(change)
        replayed.apply(records.decode(*records.encode("g", change))[1])
    assert picture(group) == picture(replayed)
    for change in list(group.tombstones()):
        replayed.apply(change)
    assert (replayed.members, replayed.initialized, replayed.epoch) == ({}, {}, 1)

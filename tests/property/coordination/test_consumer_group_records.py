"""Records of consumer groups: what is written is read, and what is damaged is said to be."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.groups.consumer import records
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.model import (
    Change,
    ClassicPart,
    MemberStanding,
    MemberState,
    MemberSubscription,
    RegexTopics,
    Resolved,
    Standing,
    Subscription,
)
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from tests.support.client.consumer_kit import topic_id

EPOCHS = st.integers(0, 2**31 - 1)
TEXTS = st.text(max_size=8)
NAMES = st.sampled_from(["a", "b", "ü"])
TOPICS = st.sampled_from([topic_id("t"), topic_id("u")])
PARTITIONS = st.dictionaries(TOPICS, st.frozensets(st.integers(0, 300), min_size=1, max_size=5))
OWNED = st.dictionaries(
    TOPICS, st.dictionaries(st.integers(0, 300), EPOCHS, min_size=1, max_size=5)
)
CLASSIC = st.none() | st.builds(
    ClassicPart, EPOCHS, st.lists(st.tuples(TEXTS, st.binary(max_size=9)), max_size=2).map(tuple)
)
SUBSCRIPTIONS = st.builds(
    Subscription,
    st.none() | NAMES,
    st.none() | TEXTS,
    TEXTS,
    TEXTS,
    st.frozensets(NAMES),
    st.sampled_from(["", "a.*", "b"]),
    EPOCHS,
    st.none() | st.sampled_from(["uniform", "range"]),
    CLASSIC,
)
STANDINGS = st.builds(
    Standing, st.integers(-2, 99), st.integers(-1, 99), st.sampled_from(MemberState), OWNED, OWNED
)
RESOLVED = st.builds(Resolved, st.frozensets(NAMES), EPOCHS, EPOCHS)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(GroupEpoch, EPOCHS, st.integers(-(2**63), 2**63 - 1)),
    st.builds(TargetEpoch, EPOCHS, st.integers(0, 2**62)),
    st.builds(MemberSubscription, NAMES, st.none() | SUBSCRIPTIONS),
    st.builds(MemberTarget, NAMES, st.none() | PARTITIONS),
    st.builds(MemberStanding, NAMES, st.none() | STANDINGS),
    st.builds(RegexTopics, st.sampled_from(["a.*", "b"]), st.none() | RESOLVED),
    st.just(GroupEpoch(None)),
    st.just(TargetEpoch(None)),
)


@given(TEXTS, CHANGES)
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


def picture(group: ConsumerGroup) -> dict[str, object]:
    """All but timers, who owns what and who is which instance: two may claim the same here."""
    left_out = ("_behind", "_owners", "static_members", "timers")
    return {name: one for name, one in vars(group).items() if name not in left_out}


@given(st.lists(CHANGES, max_size=12), st.lists(CHANGES, max_size=6))
def test_what_is_changed_can_be_taken_back(before: list[Change], then: list[Change]) -> None:
    group, twin = ConsumerGroup("g"), ConsumerGroup("g")
    for change in before:
        group.apply(change)
        twin.apply(change)
    undo = []
    for change in then:
        if isinstance(change, MemberSubscription) and change.subscription is None:
            # As a turn does it: what a member has goes before the member itself.
            undo.append(group.apply(MemberStanding(change.member_id, None)))
        undo.append(group.apply(change))
    for change in reversed(undo):
        group.apply(change)
    assert picture(group) == picture(twin)


KAFKAS_KEY = b"\x00\x05\x00\x01g\x00\x162dlRXxLVRziPrW6pGwVV6w"
KAFKAS_MEMBER = base64.b64decode("AAAAABFjb25zb2xlLWNvbnN1bWVyCy8xMjcuMC4wLjECBG9uZQEABJPgAAEAAQA=")


def test_a_member_as_kafka_writes_it_is_read_and_written_byte_for_byte() -> None:
    group_id, change = records.decode(KAFKAS_KEY, KAFKAS_MEMBER)
    assert group_id == "g"
    assert isinstance(change, MemberSubscription)
    assert change.subscription is not None
    assert change.subscription.topics == {"one"}
    assert change.subscription.classic is None, (
        "which takes a tag: without one Kafka reads a classic member"
    )
    assert records.encode(group_id, change) == (KAFKAS_KEY, KAFKAS_MEMBER)
    shown = CONSUMER_OFFSETS[5][1].decode(KAFKAS_MEMBER, 0, 2)
    assert shown["classicMemberMetadata"] is None


def test_a_member_written_without_the_tag_is_none_of_the_classic_protocol() -> None:
    _, change = records.decode(KAFKAS_KEY, KAFKAS_MEMBER[:-4] + b"\x00")
    assert isinstance(change, MemberSubscription)
    assert change.subscription is not None
    assert change.subscription.classic is None

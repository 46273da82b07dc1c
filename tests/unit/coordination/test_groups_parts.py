"""The small parts: hashing, the state table, subscriptions."""

import pytest

from headrace.coordination.groups.classic.states import NEXT, GroupState, step
from headrace.coordination.groups.classic.subscription import subscribed_topics
from headrace.model.invariant import InvariantError
from headrace.shards.group_partition import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("é", 233),
        ("😀", 0xD83D * 31 + 0xDE00),
    ],
)
def test_hashes_are_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_hash_without_an_absolute_value_is_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("g-group", 5) == 2


def test_the_table_forbids_what_it_does_not_name() -> None:
    for state in GroupState:
        for target in GroupState:
            if target in NEXT[state]:
                assert step(state, target) is target
            else:
                with pytest.raises(InvariantError):
                    step(state, target)


def test_a_subscription_is_read_whatever_its_version_appends() -> None:
    body = b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x02bc"
    topics = frozenset({"a", "bc"})
    assert subscribed_topics(b"\x00\x00" + body + b"\xff\xff\xff\xff") == topics
    assert subscribed_topics(b"\x00\x03" + body + b"\x00\x00\x00\x00" + b"more") == topics


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00\x00",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x09abc",
        b"\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
    ],
)
def test_bytes_that_are_no_subscription_are_none(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None

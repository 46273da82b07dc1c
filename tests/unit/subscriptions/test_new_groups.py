"""Where a new group begins, by each rule, and the filters of tags."""

import pytest

from headrace.subscriptions.new_groups import QueueState, ZeroOffsetRule, begins_at_zero
from headrace.subscriptions.tag_filters import TagFilter

MEMORY = 1000
YOUNG = QueueState(0, 10, 100, False)
EMPTY = QueueState(0, 0, 0, False)
ADDED = QueueState(0, 10, 100, True)
ADDED_EMPTY = QueueState(0, 0, 0, True)
DELETED = QueueState(5, 10, 100, False)
DELETED_ALL = QueueState(10, 10, 0, False)
LARGE = QueueState(0, 10, 401, False)


@pytest.mark.parametrize(
    ("rule", "zero"),
    [
        (ZeroOffsetRule.OFF, set()),
        (ZeroOffsetRule.FIVE, {YOUNG, ADDED, LARGE}),
        (ZeroOffsetRule.FOUR_NINE, {YOUNG, ADDED, EMPTY, ADDED_EMPTY}),
        (ZeroOffsetRule.NEW_QUEUE, {ADDED, ADDED_EMPTY}),
    ],
)
def test_a_new_group_begins_at_zero_by_its_rule(
    rule: ZeroOffsetRule, zero: set[QueueState]
) -> None:
    queues = {YOUNG, EMPTY, ADDED, ADDED_EMPTY, DELETED, DELETED_ALL, LARGE}
    assert {queue for queue in queues if begins_at_zero(rule, queue, MEMORY)} == zero


def test_the_memory_of_4_9_is_its_share_exactly() -> None:
    queue = LARGE._replace(log_bytes=400)
    assert begins_at_zero(ZeroOffsetRule.FOUR_NINE, queue, MEMORY)
    assert not begins_at_zero(ZeroOffsetRule.FOUR_NINE, queue, MEMORY - 1)
    one_record = LARGE._replace(end_offset=1)
    assert not begins_at_zero(ZeroOffsetRule.FOUR_NINE, one_record, MEMORY)


def test_a_queue_added_later_and_cut_since_begins_at_zero_by_new_queue() -> None:
    queue = DELETED._replace(added_after_group=True)
    assert begins_at_zero(ZeroOffsetRule.NEW_QUEUE, queue, MEMORY)
    assert not begins_at_zero(ZeroOffsetRule.FIVE, queue, MEMORY)


def test_the_rules_have_the_values_of_the_setting() -> None:
    assert [str(rule) for rule in ZeroOffsetRule] == ["5", "4.9", "new-queue", "off"]


@pytest.mark.parametrize("expression", ["", "*", "  ", " * ", "||", "A || *"])
def test_an_expression_without_tags_wants_all(expression: str) -> None:
    every = TagFilter(expression)
    assert every.wants_all
    assert every.wants(b"A")
    assert every.wants(None)


def test_an_expression_wants_its_tags_alone() -> None:
    some = TagFilter("A||  größe ||B ")
    assert not some.wants_all
    assert all(map(some.wants, (b"A", b"B", "größe".encode())))
    assert not any(map(some.wants, (b"C", b"a", b"A||B", b"", None)))


def test_tags_with_equal_hashes_are_told_apart() -> None:
    assert not TagFilter("AaAa").wants(b"BBBB"), "Java's hashes of these are equal"

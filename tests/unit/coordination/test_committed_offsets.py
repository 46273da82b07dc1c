"""The store of committed offsets: what counts, what a transaction may change, what is gone."""

from headrace.coordination.groups.committed_offsets import Committed, OffsetStore

A, B = ("g", "t", 0), ("g", "t", 1)
OTHER_TOPIC, OTHER_GROUP = ("g", "u", 0), ("h", "t", 0)


def at(offset: int) -> Committed:
    return Committed(offset, -1, "", 1_000)


def test_an_offset_is_its_groups_and_its_partitions() -> None:
    store = OffsetStore()
    store.put(A, at(1))
    store.put(B, at(2))
    store.put(OTHER_TOPIC, at(3))
    assert [store.get(place) for place in (A, B, OTHER_TOPIC, OTHER_GROUP)] == [
        at(1),
        at(2),
        at(3),
        None,
    ]
    assert list(store.places("g")) == [A, B, OTHER_TOPIC]
    assert list(store.places("h")) == []


def test_a_removed_offset_leaves_nothing_behind() -> None:
    store = OffsetStore()
    for place in (A, B, OTHER_TOPIC):
        store.put(place, at(1))
    store.remove(A)
    assert list(store.places("g")) == [B, OTHER_TOPIC]
    store.remove(B)
    assert store.by_group == {"g": {"u": {0: at(1)}}}
    store.remove(OTHER_TOPIC)
    assert store.by_group == {}
    store.remove(A)
    store.put(A, at(1))
    store.remove(OTHER_TOPIC)
    store.remove(("g", "t", 9))
    assert store.by_group == {"g": {"t": {0: at(1)}}}


def test_offsets_of_a_transaction_count_when_it_is_committed_and_never_when_aborted() -> None:
    store = OffsetStore()
    store.put(A, at(1))
    store.put_in_transaction(7, A, at(2))
    store.put_in_transaction(8, B, at(3))
    assert store.get(A) == at(1)
    store.end_transaction(7, committed=True)
    store.end_transaction(8, committed=False)
    assert (store.get(A), store.get(B)) == (at(2), None)
    assert store.open_transactions == {}
    store.end_transaction(7, committed=True)
    assert store.get(A) == at(2)


def test_the_logs_order_decides_between_a_transaction_and_who_commits_beside_it() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, A, at(1))
    store.put(A, at(2))
    store.put(B, at(2))
    store.put_in_transaction(7, B, at(3))
    store.end_transaction(7, committed=True)
    assert (store.get(A), store.get(B)) == (at(2), at(3))


def test_the_later_of_two_transactions_counts_whichever_ends_first() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, A, at(1))
    store.put_in_transaction(8, A, at(2))
    store.end_transaction(8, committed=True)
    store.end_transaction(7, committed=True)
    assert store.get(A) == at(2)
    store.put_in_transaction(7, A, at(3))
    store.put_in_transaction(8, A, at(4))
    store.end_transaction(7, committed=True)
    assert store.get(A) == at(3)
    store.end_transaction(8, committed=True)
    assert store.get(A) == at(4)


def test_the_last_of_a_transactions_offsets_for_a_partition_counts() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, A, at(1))
    store.put(A, at(2))
    store.put_in_transaction(7, A, at(3))
    store.end_transaction(7, committed=True)
    assert store.get(A) == at(3)


def test_what_was_put_before_a_transaction_began_never_hides_its_offset() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, A, at(1))
    store.put(B, at(2))
    store.end_transaction(7, committed=True)
    store.put_in_transaction(7, B, at(3))
    store.end_transaction(7, committed=True)
    assert store.get(B) == at(3)


def test_the_order_of_writes_is_tracked_only_while_a_transaction_is_open() -> None:
    store = OffsetStore()
    store.put(A, at(1))
    assert not store._put_at
    for producer_id in (7, 8):
        store.put_in_transaction(producer_id, B, at(2))
    store.put(A, at(3))
    store.end_transaction(7, committed=True)
    assert store._put_at
    store.end_transaction(8, committed=False)
    assert not store._put_at


def test_an_offset_is_unstable_while_an_open_transaction_may_change_it() -> None:
    store = OffsetStore()
    assert not store.is_unstable(A)
    store.put_in_transaction(7, A, at(1))
    assert store.is_unstable(A)
    assert not store.is_unstable(B)
    store.end_transaction(7, committed=True)
    assert not store.is_unstable(A)


def test_a_removed_offset_is_gone_from_open_transactions_too() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, A, at(1))
    store.put_in_transaction(7, B, at(1))
    store.put_in_transaction(8, A, at(2))
    store.remove(A)
    for producer_id in (7, 8):
        store.end_transaction(producer_id, committed=True)
    assert (store.get(A), store.get(B)) == (None, at(1))


def test_pending_offsets_are_named_once_behind_those_that_count() -> None:
    store = OffsetStore()
    store.put_in_transaction(7, B, at(1))
    store.put_in_transaction(8, B, at(2))
    store.put_in_transaction(8, A, at(2))
    store.put_in_transaction(8, OTHER_GROUP, at(2))
    store.put(A, at(3))
    assert list(store.places("g")) == [A, B]
    assert list(store.places("h")) == [OTHER_GROUP]


def test_all_offsets_in_topics_are_found_pending_ones_too() -> None:
    store = OffsetStore()
    store.put(A, at(1))
    store.put(OTHER_TOPIC, at(1))
    store.put_in_transaction(7, A, at(2))
    store.put_in_transaction(7, OTHER_GROUP, at(2))
    store.put_in_transaction(7, ("h", "u", 3), at(2))
    assert store.places_in({"t"}) == [A, OTHER_GROUP]
    assert store.places_in({"u"}) == [OTHER_TOPIC, ("h", "u", 3)]
    assert store.places_in(()) == []

"""A replay of the last records alone leaves the state that a replay of them all leaves."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.coordination.groups.committed_offsets import Committed, OffsetStore, Place
from headrace.shards.latest_records import Latest

PRODUCERS = st.integers(1, 3)
KEYS = st.sampled_from([b"a", b"b", b"c"])
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | PRODUCERS),
        st.tuples(st.just("tombstone"), KEYS, st.none()),
        st.tuples(st.sampled_from(["commit", "abort"]), st.none(), PRODUCERS),
    ),
    max_size=40,
)


class Target:
    """Offsets as the group coordinator keeps them."""

    def __init__(self) -> None:
        self.store = OffsetStore()

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        place: Place = ("g", (key or b"").decode(), 0)
        committed = Committed(log_offset, -1, "", 0)
        if value is None:
            self.store.remove(place)
        elif producer_id is None:
            self.store.put(place, committed)
        else:
            self.store.put_in_transaction(producer_id, place, committed)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        self.store.end_transaction(producer_id, committed=committed)

    def state(self, rest: list[tuple[int, bool]]) -> object:
        """What counts now, and after the open transactions have ended so."""
        before = {name: dict(by) for name, by in self.store.by_group.get("g", {}).items()}
        open_ones = {
            producer: {place: one for place, (_, one) in pending.items()}
            for producer, pending in self.store.open_transactions.items()
            if pending
        }
        for producer, committed in rest:
            self.replay_end(producer, committed=committed)
        return before, open_ones, self.store.by_group


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, st.permutations([1, 2, 3]), st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_was_superseded_is_not_missed(
    events: list[tuple[str, bytes | None, int | None]], order: list[int], outcomes: list[bool]
) -> None:
    all_of_it, last_only, latest = Target(), Target(), Latest()
    for offset, (kind, key, producer) in enumerate(events):
        for one in (all_of_it, latest):
            if kind in ("commit", "abort"):
                assert producer is not None
                one.replay_end(producer, committed=kind == "commit")
            else:
                one.replay(offset, producer, key, None if kind == "tombstone" else b"v")
    kept = latest.records()
    for record in kept:
        last_only.replay(*record)
    rest = list(zip(order, outcomes, strict=True))
    assert last_only.state(rest) == all_of_it.state(rest)
    assert [one.log_offset for one in kept] == sorted({one.log_offset for one in kept})
    assert len(kept) <= 3 * 4

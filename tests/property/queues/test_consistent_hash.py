"""Consistent hashing: one change of bindings moves only messages of the changed queues."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.queues.exchange_types import add, host_with, routed
from tests.support.queues.virtual_hosts import to_queue, unbind

names = st.text("abz09-.é", min_size=1, max_size=3)
weights = st.sampled_from([1, 2, 3, 100, 10_000])


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(names, weights, min_size=2, max_size=12), st.data())
def test_removed_queue_moves_its_own_messages_and_a_new_one_moves_them_back(
    queues: dict[str, int], data: st.DataObject
) -> None:
    host = host_with("x-consistent-hash", {name: str(weight) for name, weight in queues.items()})
    name = data.draw(st.sampled_from(sorted(queues)))
    key = str(queues[name])
    before = routed(host, 60)
    unbind(host, to_queue("e", name, key))
    after = routed(host, 60)
    assert {key for key in before if before[key] != after[key]} == {
        key for key in before if before[key] == name
    }
    add(host, name, key)
    assert routed(host, 60) == before

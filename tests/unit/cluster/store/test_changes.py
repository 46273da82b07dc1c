"""A change of a topic: exactly these nodes of the store, and exactly these orders."""

from headrace.broker.metadata_image import NO_LEADER, BrokerInfo
from headrace.cluster.decisions import changes, elections, reassignment
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.decisions.orders import Follow, Lead, Replication, Stop
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import OPERATIONS_PER_MULTI
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import Planned
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.ports.store import Create, Operation, Set
from headrace.posix.zookeeper.zookeeper_store import check_sizes

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T0 = TopicPartition("t", 0)
ID = b"i" * 16


def state(leader: BrokerId, *isr: BrokerId, epoch: int = 5, by: int = 0) -> PartitionState:
    return PartitionState(leader, LeaderEpoch(epoch), isr, by)


def topic(*replicas: BrokerId) -> StoredTopic:
    """Of one partition that the first leads; read at version 3, its state at version 8."""
    held = state(replicas[0], *replicas)
    return StoredTopic("t", TopicNode({0: replicas}, ID), {}, {0: held}, 3, {0: 8})


def facts_of(one: StoredTopic) -> ClusterFacts:
    facts = ClusterFacts()
    facts.controller_epoch = 9
    facts.brokers = {broker: BrokerInfo(broker, ()) for broker in (ONE, TWO, THREE)}
    facts.topics = {one.name: one}
    return facts


def put(path: str, held: PartitionState) -> Operation:
    return Create(path, znodes.encode_state(held))


def test_a_new_topic_is_all_of_its_nodes_its_settings_last() -> None:
    made = StoredTopic.of_plan(Planned("t", ((ONE, TWO), (TWO,)), {"k": "v"}), ID)
    change = changes.creation(facts_of(topic(ONE)), made)
    root = "/brokers/topics/t"
    assert change.operations == (
        Create(root, znodes.encode_topic(made.node)),
        Create(f"{root}/partitions", b""),
        Create(f"{root}/partitions/0", b""),
        put(f"{root}/partitions/0/state", state(ONE, ONE, TWO, epoch=0, by=9)),
        Create(f"{root}/partitions/1", b""),
        put(f"{root}/partitions/1/state", state(TWO, TWO, epoch=0, by=9)),
        Create("/config/topics/t", znodes.encode_config({"k": "v"})),
    )
    first = Replication(T0, ID, ONE, LeaderEpoch(0), (ONE, TWO), (ONE, TWO), 0, True)
    other = TopicPartition("t", 1)
    second = Replication(other, ID, TWO, LeaderEpoch(0), (TWO,), (TWO,), 0, True)
    assert change.orders == ((ONE, Lead(first)), (TWO, Follow(first)), (TWO, Lead(second)))


def test_a_topic_of_many_partitions_is_made_by_changes_that_fit_and_is_whole_after_them() -> None:
    most = changes.PARTITIONS_PER_CHANGE
    name, count = "t" * 249, 2 * most + 1
    made = StoredTopic.of_plan(Planned(name, ((ONE, TWO, THREE),) * count, {}), ID)
    facts = facts_of(topic(ONE))
    paths: list[str] = []
    orders: list[int] = []
    while left := changes.creations(facts, made):  # as after a change by another
        change = left[0]
        check_sizes(change.operations)
        assert len(change.operations) <= OPERATIONS_PER_MULTI
        paths += [operation.path for operation in change.operations]
        orders.append(len(change.orders))
        assert len(orders) <= 3, "it is never done"
        facts.take(change)
    assert orders == [3 * most, 3 * most, 3]
    assert len(set(paths)) == len(paths) == 2 * count + 3
    assert facts.topics[name] == made


def test_a_topic_that_is_to_go_is_made_no_further() -> None:
    made = StoredTopic.of_plan(Planned("u", ((ONE,),) * 500, {}), ID)
    facts = facts_of(topic(ONE))
    facts.take(changes.creations(facts, made)[0])
    facts.deleting.add("u")
    assert changes.creations(facts, made) == []


def test_many_partitions_are_added_by_changes_that_fit() -> None:
    most = changes.PARTITIONS_PER_CHANGE
    name, count = "t" * 249, 2 * most + 1
    held = StoredTopic.of_plan(Planned(name, ((ONE, TWO, THREE),), {}), ID)
    facts = facts_of(held)
    added = [(TWO, THREE, ONE)] * count
    orders: list[int] = []
    while left := changes.growths(facts, facts.topics[name], 1, added):  # as after another's change
        change = left[0]
        check_sizes(change.operations)
        assert len(change.operations) <= OPERATIONS_PER_MULTI
        orders.append(len(change.orders))
        assert len(orders) <= 3, "it is never done"
        facts.take(change)
    assert orders == [3 * most, 3 * most, 3]
    assert len(facts.topics[name].states) == len(facts.topics[name].node.partitions) == count + 1


def test_a_grown_topic_is_its_node_and_those_of_its_new_partitions() -> None:
    held = topic(ONE, TWO)
    (change,) = changes.growths(facts_of(held), held, 1, [(THREE, ONE)])
    node = TopicNode({0: (ONE, TWO), 1: (THREE, ONE)}, ID)
    root = "/brokers/topics/t"
    assert change.operations == (
        Set(root, znodes.encode_topic(node), 3),
        Create(f"{root}/partitions/1", b""),
        put(f"{root}/partitions/1/state", state(THREE, THREE, ONE, epoch=0, by=9)),
    )
    new = Replication(
        TopicPartition("t", 1), ID, THREE, LeaderEpoch(0), (THREE, ONE), (THREE, ONE), 0, True
    )
    assert change.orders == ((THREE, Lead(new)), (ONE, Follow(new)))


def test_a_deletion_is_a_mark_and_an_order_to_every_replica() -> None:
    change = changes.deletion(topic(ONE, TWO))
    assert change.operations == (Create("/admin/delete_topics/t", b""),)
    stop = Stop(T0, ID, LeaderEpoch(-2), True)
    assert change.orders == ((ONE, stop), (TWO, stop))


def test_another_state_is_written_over_the_version_that_was_read() -> None:
    held = topic(ONE, TWO)
    facts = facts_of(held)
    after = state(TWO, TWO, epoch=6)
    change = changes.state_change(facts, held, 0, after, dropped=(THREE,))
    path = "/brokers/topics/t/partitions/0/state"
    encoded = znodes.encode_state(state(TWO, TWO, epoch=6, by=9))
    assert change.operations == (Set(path, encoded, 8),)
    now = Replication(T0, ID, TWO, LeaderEpoch(6), (TWO,), (ONE, TWO), 9, False)
    stop = Stop(T0, ID, LeaderEpoch(6), True)
    assert change.orders == ((ONE, Follow(now)), (TWO, Lead(now)), (THREE, stop))
    held.states, held.versions = {}, {}
    first = changes.state_change(facts, held, 0, after)
    assert first.operations == (Create(path, encoded),)
    node = TopicNode({0: (TWO,)}, ID)
    moved = changes.state_change(facts, held, 0, after, node, told=False)
    assert moved.operations[0] == Set("/brokers/topics/t", znodes.encode_topic(node), 3)
    assert (moved.orders, moved.node) == ((), node)


def test_another_node_is_written_over_the_version_that_was_read() -> None:
    node = TopicNode({0: (TWO,)}, ID)
    change = changes.node_change(topic(ONE), node)
    assert change == Change(
        "t", (Set("/brokers/topics/t", znodes.encode_topic(node), 3),), node=node
    )


def test_a_reminder_says_what_holds_to_those_who_may_not_know() -> None:
    held = topic(ONE, TWO)
    now = Replication(T0, ID, ONE, LeaderEpoch(5), (ONE, TWO), (ONE, TWO), 8, False)
    assert changes.reminder(held, [0], [TWO]) == Change(
        "t", shown=(0,), orders=((TWO, Follow(now)),)
    )
    held.states[0] = state(NO_LEADER, ONE)
    (order,) = (order for _, order in changes.reminder(held, [0], [ONE], is_new=True).orders)
    assert isinstance(order, Follow)
    assert order.replication.is_new


def test_a_replica_whose_directory_failed_inherits_nothing() -> None:
    held = topic(ONE, TWO, THREE)
    facts = facts_of(held)
    facts.failed = {(TWO, T0)}
    after = elections.moved_from(facts, held, 0, ONE)
    assert after == state(THREE, THREE, epoch=6)
    facts.failed.add((THREE, T0))
    assert elections.moved_from(facts, held, 0, ONE) is None
    held.states[0] = state(TWO, TWO, ONE)
    assert elections.preferred(facts, held, 0) == state(ONE, TWO, ONE, epoch=6)
    facts.failed = {(ONE, T0)}
    assert elections.preferred(facts, held, 0) is None


def test_what_was_written_is_believed_with_the_versions_it_has_now() -> None:
    held = topic(ONE, TWO)
    facts = facts_of(held)
    facts.take(*changes.growths(facts, held, 1, [(THREE,)]))
    assert (held.version, held.versions) == (4, {0: 8, 1: 0})
    facts.take(changes.state_change(facts, held, 0, state(TWO, TWO, epoch=6)))
    assert held.versions == {0: 9, 1: 0}
    assert held.states[0] == state(TWO, TWO, epoch=6)
    facts.take(changes.deletion(held))
    assert facts.deleting == {"t"}
    assert list(facts.partitions_of([ONE])) == []
    facts.failed = {(ONE, T0), (ONE, TopicPartition("u", 0))}
    facts.forget("t")
    assert (facts.topics, facts.deleting) == ({}, set())
    assert facts.failed == {(ONE, TopicPartition("u", 0))}
    facts.forget("t")
    facts.take(changes.deletion(held))
    assert facts.deleting == set()


def test_what_clients_see_of_a_change_is_the_whole_topic_only_where_it_grew() -> None:
    held = topic(ONE, TWO)
    facts = facts_of(held)
    change = changes.state_change(facts, held, 0, state(TWO, TWO, epoch=6))
    facts.take(change)
    delta = facts.delta([change, change])
    assert (list(delta.topics), list(delta.removed)) == ([], [])
    ((name, (shown,)),) = delta.partitions.items()
    assert (name, shown) == ("t", held.shown_partition(0))
    assert (shown.leader, shown.leader_epoch, shown.isr) == (TWO, 6, (TWO,))
    (grown,) = changes.growths(facts, held, 1, [(THREE,)])
    facts.take(grown)
    delta = facts.delta([grown])
    assert [one.name for one in delta.topics] == ["t"]
    assert delta.partitions == {}
    deletion = changes.deletion(held)
    facts.take(deletion)
    delta = facts.delta([deletion, change])
    assert (list(delta.removed), delta.partitions) == (["t"], {})
    assert list(facts.everything(ONE).topics) == []


def test_a_reassignment_runs_while_some_replicas_come_or_some_go() -> None:
    held = {0: (ONE, TWO)}
    assert not reassignment.runs(TopicNode(held, ID), 0)
    assert reassignment.runs(TopicNode(held, ID, {0: (TWO,)}), 0)
    assert reassignment.runs(TopicNode(held, ID, {}, {0: (ONE,)}), 0)
    assert not reassignment.runs(TopicNode(held, ID, {1: (TWO,)}, {1: (ONE,)}), 0)


def test_a_partition_is_not_moved_to_where_nobody_in_sync_can_lead_it() -> None:
    held = topic(ONE, TWO)
    facts = facts_of(held)
    del facts.brokers[TWO]
    assert reassignment.begun(facts, held, 0, (TWO,)) is None
    held.states[0] = state(NO_LEADER, ONE, TWO)
    step = reassignment.begun(facts, held, 0, (TWO,))
    assert step is not None
    assert step.state == state(NO_LEADER, TWO, epoch=6)
    held.states[0] = state(ONE, ONE)
    assert reassignment.cancelled(facts, held, 0) is not None
    held.node = TopicNode({0: (ONE, TWO)}, ID, {0: (ONE,)})
    assert reassignment.cancelled(facts, held, 0) is None

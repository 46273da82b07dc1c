"""A controller's orders mean the same to the broker that reads them as requests off the wire."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.metadata_image import (
    NO_LEADER,
    BrokerInfo,
    Endpoint,
    ImageDelta,
    MetadataImage,
    PartitionInfo,
)
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Follow, Lead, Order, Orders, Replication, Stop
from headrace.cluster.peers.order_messages import (
    Teller,
    led_and_followed,
    requests_of,
    shown,
    stopped,
    unknown_topics,
)
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.peer_messages import PEER_MESSAGES, PEER_VERSIONS
from tests.support.examples import examples

NAMES = ("a", "b", "__consumer_offsets")
ME, BROKERS = BrokerId(2), tuple(BrokerId(number) for number in range(4))
COUNT = 3
"""Partitions of each topic."""
TELLER = Teller(BrokerId(0), "BROKERS")

brokers = st.sampled_from(BROKERS)
replicas = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
leaders = st.sampled_from((*BROKERS, NO_LEADER))
epochs = st.integers(0, 2**31 - 1)
keys = st.builds(TopicPartition, st.sampled_from(NAMES), st.integers(0, COUNT - 1))
ids = {name: bytes([number + 1]) * 16 for number, name in enumerate(NAMES)}
replications = st.builds(
    lambda key, *rest: Replication(key, ids[key.topic], *rest),
    keys, leaders, epochs.map(LeaderEpoch), replicas, replicas, epochs, st.booleans(),
    st.booleans(), st.one_of(st.just(()), replicas),
)  # fmt: skip
stops = st.builds(
    lambda key, epoch, delete: Stop(key, ids[key.topic], epoch, delete),
    keys, st.integers(-2, 2**31 - 1).map(LeaderEpoch), st.booleans(),
)  # fmt: skip
endpoints = st.builds(
    Endpoint,
    st.sampled_from(("BROKERS", "PLAINTEXT")),
    st.sampled_from(("h", "::1", "größe")),
    st.integers(1, 65535),
    st.sampled_from(("PLAINTEXT", "SASL_SSL", "SSL")),
)


def order_of(what: Replication) -> Order:
    return Lead(what) if what.leader == ME else Follow(what)


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClusterFacts, Orders, frozenset[str]]:
    """Facts, orders on them, and the topics that the broker has been shown before."""
    facts = ClusterFacts()
    for number in BROKERS:
        addresses = tuple(draw(st.lists(endpoints, max_size=2)))
        rack = draw(st.sampled_from((None, "r")))
        facts.brokers[number] = BrokerInfo(number, addresses, rack, number + 70)
    for name in NAMES:
        held = {index: draw(replicas) for index in range(COUNT)}
        states = {
            index: PartitionState(draw(leaders), LeaderEpoch(draw(epochs)), draw(replicas))
            for index in held
        }
        facts.topics[name] = StoredTopic(
            name, TopicNode(held, ids[name]), {"k": name}, states, 0, dict.fromkeys(held, 5)
        )
    known = frozenset(draw(st.sets(st.sampled_from(NAMES))))
    removed = draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
    changed = {
        name: [facts.topics[name].shown_partition(index) for index in sorted(indexes)]
        for name in sorted(known - removed)
        if (indexes := draw(st.sets(st.integers(0, COUNT - 1))))
    }
    live = draw(st.sampled_from((None, tuple(facts.brokers.values()))))
    delta = ImageDelta(
        [facts.topics[name].shown() for name in NAMES if name not in known],
        sorted(removed),
        changed,
        live,
        draw(st.sampled_from((None, TELLER.controller))),
        is_whole=live is not None and draw(st.booleans()),
    )
    orders = [order_of(what) for what in draw(st.lists(replications, max_size=5))]
    ordered = [*orders, *draw(st.lists(stops, max_size=3))]
    return facts, Orders(draw(epochs), draw(st.integers(-1, 2**60)), ordered, delta), known


def image_of(facts: ClusterFacts, known: frozenset[str]) -> MetadataImage:
    """The picture of a broker that has been shown these topics as they were, without leaders."""
    image = MetadataImage("c")
    nobody = tuple(
        PartitionInfo(index, NO_LEADER, LeaderEpoch(-1), (), ()) for index in range(COUNT)
    )
    topics = [facts.topics[name].shown() for name in sorted(known)]
    image.apply(ImageDelta(topics, brokers=tuple(facts.brokers.values())))
    image.apply(ImageDelta(partitions=dict.fromkeys(sorted(known), nobody)))
    return image


def view(image: MetadataImage) -> object:
    topics = {
        name: (topic.topic_id, topic.partitions, topic.internal, dict(topic.config))
        for name, topic in image.topics.items()
    }
    return topics, dict(image.brokers)


@settings(max_examples=examples(150), derandomize=True)
@given(cases(), st.booleans())
def test_orders_mean_the_same_when_they_have_been_requests(
    case: tuple[ClusterFacts, Orders, frozenset[str]], newest: bool
) -> None:
    facts, orders, known = case
    if not newest:  # version 7 of UpdateMetadata has no type
        orders = orders._replace(delta=orders.delta._replace(is_whole=False))
    there, here = image_of(facts, known), image_of(facts, known)
    read: list[Order] = []
    asked = []
    for told in requests_of(orders, facts, TELLER):
        asked.append(told.key)
        version = PEER_VERSIONS[told.key][newest]
        message = PEER_MESSAGES[told.key].request
        request = message.decode(message.encode(told.fields, version), version)
        if told.key is ApiKey.LEADER_AND_ISR:
            got = led_and_followed(request, ME)
        elif told.key is ApiKey.STOP_REPLICA:
            got = stopped(request, there.topics)
        else:
            configs = {name: {"k": name} for name in unknown_topics(request, there.topics)}
            delta = shown(request, there.topics, configs, facts.brokers)
            there.apply(delta)
            assert delta.controller_id == TELLER.controller
            got = Orders(request["controllerEpoch"], request["brokerEpoch"])
        assert (got.controller_epoch, got.broker_epoch) == (
            orders.controller_epoch, orders.broker_epoch,
        )  # fmt: skip
        read += got.orders
    here.apply(orders.delta)
    assert view(there) == view(here)
    assert asked == sorted(asked, key=[4, 6, 5].index)
    held = [
        order if newest else _before_version_6(order)
        for order in orders.orders
        if not isinstance(order, Stop)
    ]
    gone = [order for order in orders.orders if isinstance(order, Stop)]
    assert read[: len(held)] == held
    for stop, found in zip(gone, read[len(held) :], strict=True):
        assert isinstance(found, Stop)
        assert found._replace(topic_id=stop.topic_id) == stop
        if stop.topic_partition.topic in there.topics:
            assert found.topic_id == stop.topic_id


def _before_version_6(order: Lead | Follow) -> Lead | Follow:
    """Without what the versions before LeaderAndIsr 6 do not say."""
    return type(order)(order.replication._replace(recovering=False))


def test_nothing_is_asked_where_nothing_is_ordered() -> None:
    assert requests_of(Orders(1, 2), ClusterFacts(), TELLER) == []


def test_a_leaders_address_is_that_of_the_listener_for_brokers() -> None:
    facts = ClusterFacts()
    own, other = Endpoint("BROKERS", "in", 2), Endpoint("PLAINTEXT", "out", 1)
    facts.brokers = {ME: BrokerInfo(ME, (other, own)), BROKERS[1]: BrokerInfo(BROKERS[1], (other,))}
    for leader, told in ((ME, [{"brokerId": 2, "hostName": "in", "port": 2}]), (BROKERS[1], [])):
        key = TopicPartition("a", 0)
        what = Replication(key, ids["a"], leader, LeaderEpoch(0), (ME,), (ME,), 0)
        (request,) = requests_of(Orders(1, 2, [order_of(what)]), facts, TELLER)
        assert request.fields["liveLeaders"] == told

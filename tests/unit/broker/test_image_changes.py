"""The picture of the cluster: what a change makes of it, and what counts as another structure."""

import pytest

from headrace.broker.metadata_image import (
    NO_LEADER,
    BrokerInfo,
    ImageDelta,
    MetadataImage,
    PartitionInfo,
    TopicInfo,
    with_offline,
)
from headrace.model.nouns import BrokerId, LeaderEpoch

ONE, TWO = BrokerId(1), BrokerId(2)


def partition(index: int, leader: BrokerId = ONE, epoch: int = 0) -> PartitionInfo:
    return PartitionInfo(index, leader, LeaderEpoch(epoch), (ONE, TWO), (ONE, TWO))


def topic(name: str, count: int = 2, number: int = 1) -> TopicInfo:
    topic_id = name.encode().rjust(15, b"\0") + bytes([number])
    return TopicInfo(name, topic_id, tuple(partition(index) for index in range(count)))


def image_of(*topics: TopicInfo) -> MetadataImage:
    image = MetadataImage("c")
    image.apply(ImageDelta(topics, brokers=[BrokerInfo(ONE, ())], controller_id=ONE))
    return image


@pytest.mark.parametrize(
    ("delta", "structural"),
    [
        (ImageDelta(), False),
        (ImageDelta([topic("a")]), False),
        (ImageDelta([topic("b")]), True),
        (ImageDelta([topic("a", 3)]), True),
        (ImageDelta([topic("a", number=2)]), True),
        (ImageDelta([topic("b"), topic("a")]), True),
        (ImageDelta(removed=["a"]), True),
        (ImageDelta(removed=["a", "who"]), True),
        (ImageDelta(removed=["who"]), False),
        (ImageDelta(partitions={"a": [partition(0, TWO)], "who": [partition(0)]}), False),
        (ImageDelta(brokers=[BrokerInfo(ONE, ())]), False),
        (ImageDelta(brokers=[BrokerInfo(TWO, ())]), True),
        (ImageDelta(controller_id=ONE), False),
        (ImageDelta(controller_id=TWO), True),
        (ImageDelta(controller_id=TWO, brokers=[BrokerInfo(ONE, ())]), True),
        (ImageDelta([topic("b")], brokers=[BrokerInfo(ONE, ())], controller_id=ONE), True),
    ],
)
def test_what_makes_another_structure(delta: ImageDelta, structural: bool) -> None:
    image = image_of(topic("a"))
    told: list[tuple[ImageDelta, bool]] = []
    image.observers.append(lambda *change: told.append(change))
    version, structure = image.version, image.structure
    image.apply(delta)
    assert (image.version, image.structure) == (version + 1, structure + structural)
    assert told == [(delta, structural)]


def test_topics_are_found_by_name_and_id_and_their_partitions_counted() -> None:
    image = image_of(topic("a"), topic("b", 3))
    assert image.partition_count == 5
    image.apply(ImageDelta([topic("a", 4, number=2)]))
    assert image.partition_count == 7
    assert set(image.topics_by_id) == {topic("a", number=2).topic_id, topic("b").topic_id}
    image.apply(ImageDelta([topic("a", 1)], removed=["a"]))
    assert image.partition_count == 4
    image.apply(ImageDelta(removed=["a", "b"]))
    assert (image.partition_count, image.topics, image.topics_by_id) == (0, {}, {})


def test_names_collide_until_the_other_topic_is_gone() -> None:
    image = image_of(topic("a.b"), topic("a_b"))
    assert image.collides_with("a_b") == "a.b"
    image.apply(ImageDelta(removed=["a.b"]))
    assert image.collides_with("a.b") == "a_b"
    image.apply(ImageDelta([topic("a_b", 5)], removed=[]))
    image.apply(ImageDelta(removed=["a_b"]))
    assert image.collides_with("a.b") is None


def test_a_partition_is_shown_as_it_is_now_and_one_that_is_not_there_is_not() -> None:
    image = image_of(topic("a"))
    image.apply(ImageDelta(partitions={"a": [partition(1, TWO, 3), partition(2), partition(9)]}))
    assert image.topics["a"].partitions == (partition(0), partition(1, TWO, 3))


def test_a_hash_is_of_the_topics_there_are_whatever_their_order() -> None:
    image = image_of(topic("a"), topic("b"))
    assert image.hash_of([]) == image.hash_of(["who"]) == 0
    # Groups keep it in their log: another one for the same topics would have all of them rebalance.
    assert image.hash_of(["a"]) == 8949552110956967792
    assert image.hash_of(["a", "b"]) == image.hash_of(["b", "who", "a"]) == -8826167696697317973
    hashes = {image.hash_of(names) for names in (["a"], ["b"], ["a", "b"])}
    for other in (topic("a", 3), topic("a", number=2)):
        image.apply(ImageDelta([other]))
        hashes.add(image.hash_of(["a"]))
    assert len(hashes) == 5


def test_what_is_out_of_service_here_is_led_by_nobody_of_here() -> None:
    image = image_of(topic("a"), topic("b"))
    delta = ImageDelta([topic("a")], partitions={"b": [partition(0, TWO)]})
    offline = [("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    found = with_offline(delta, image, offline, ONE)
    ((index, shown),) = ((one.index, one) for one in found.partitions["a"])
    assert (index, shown.leader, shown.offline) == (1, NO_LEADER, (ONE,))
    first, second = found.partitions["b"]
    assert (first.index, first.leader, first.offline) == (0, TWO, (ONE,))
    assert (second.index, second.leader, second.offline) == (1, NO_LEADER, (ONE,))
    assert set(found.partitions) == {"a", "b"}
    again = with_offline(found, image, [("a", 1)], TWO)
    assert again.partitions["a"][0].offline == (ONE, TWO)


def test_a_brokers_epoch_is_not_known_unless_it_is_said() -> None:
    assert BrokerInfo(ONE, ()).epoch == -1

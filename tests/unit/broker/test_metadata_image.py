"""The picture of the cluster: changed by deltas, a version of its structure, its observers."""

from dataclasses import replace

from headrace.broker.metadata_image import (
    BrokerInfo,
    Endpoint,
    ImageDelta,
    MetadataImage,
    PartitionInfo,
    TopicInfo,
    offline_replicas,
    with_offline,
)
from headrace.model.nouns import BrokerId, LeaderEpoch

ME, OTHER = BrokerId(0), BrokerId(1)


def topic(name: str, partitions: int = 2, topic_id: bytes | None = None) -> TopicInfo:
    return TopicInfo(
        name,
        topic_id or name.encode().ljust(16, b"\1"),
        tuple(partition(index) for index in range(partitions)),
    )


def partition(index: int, leader: BrokerId = ME, epoch: int = 0) -> PartitionInfo:
    return PartitionInfo(index, leader, LeaderEpoch(epoch), (ME, OTHER), (leader,))


def picture(*topics: TopicInfo) -> MetadataImage:
    image = MetadataImage("c")
    brokers = [BrokerInfo(one, (Endpoint("PLAINTEXT", "h", 1),)) for one in (ME, OTHER)]
    image.apply(ImageDelta(topics, brokers=brokers, controller_id=ME))
    return image


def test_a_replica_is_offline_whose_broker_is_gone_or_whose_directory_failed() -> None:
    held = (BrokerId(2), BrokerId(0), BrokerId(1))
    partition = PartitionInfo(0, BrokerId(0), LeaderEpoch(0), held, held)
    alive = {BrokerId(0): None, BrokerId(1): None}
    assert offline_replicas(partition, alive) == (2,)
    assert offline_replicas(partition, {**alive, BrokerId(2): None}) == ()
    failed = replace(partition, offline=(BrokerId(1),))
    assert offline_replicas(failed, alive) == (2, 1)


def test_a_new_leader_is_no_change_of_structure_and_leaves_other_topics_as_they_are() -> None:
    image = picture(topic("t"), topic("u"))
    version, structure, other = image.version, image.structure, image.topics["u"]
    image.apply(ImageDelta(partitions={"t": [partition(1, OTHER, 5)], "gone": [partition(0)]}))
    assert (image.version, image.structure) == (version + 1, structure)
    assert image.topics["t"].partitions == (partition(0), partition(1, OTHER, 5))
    assert image.topics_by_id[image.topics["t"].topic_id] is image.topics["t"]
    assert image.topics["u"] is other


def test_settings_of_a_topic_are_no_change_of_structure() -> None:
    image = picture(topic("t"))
    structure = image.structure
    image.apply(ImageDelta([replace(topic("t"), config={"retention.ms": "1"})]))
    assert image.structure == structure


def test_whatever_comes_goes_grows_or_is_made_anew_changes_the_structure() -> None:
    image = picture(topic("t"))
    brokers = tuple(image.brokers.values())
    deltas = (
        ImageDelta([topic("u")]),
        ImageDelta([topic("u", 3)]),
        ImageDelta([topic("u", 3, b"x" * 16)]),
        ImageDelta(removed=["u"]),
        ImageDelta(brokers=brokers[:1]),
        ImageDelta(controller_id=OTHER),
    )
    for delta in deltas:
        structure = image.structure
        image.apply(delta)
        assert image.structure == structure + 1, delta
    structure = image.structure
    image.apply(ImageDelta(removed=["u"], brokers=brokers[:1], controller_id=OTHER))
    assert image.structure == structure


def test_names_ids_and_the_number_of_partitions_follow_every_change() -> None:
    image = picture(topic("t"), topic("a.b", 3), topic("a_b"))
    assert image.partition_count == 7
    image.apply(ImageDelta([topic("t", 4, b"n" * 16)], removed=["a_b"]))
    assert image.partition_count == 7
    assert set(image.topics_by_id) == {b"n" * 16, image.topics["a.b"].topic_id}
    assert (image.collides_with("a_b"), image.collides_with("b.a")) == ("a.b", None)
    image.apply(ImageDelta([topic("t", 1, b"o" * 16)], removed=["t", "a.b"]))
    assert (image.partition_count, set(image.topics_by_id)) == (1, {b"o" * 16})
    assert image.collides_with("a_b") is None


def test_delta_of_the_whole_cluster_removes_the_topics_that_it_does_not_name() -> None:
    image = picture(topic("t"), topic("u"), topic("v"))
    heard: list[ImageDelta] = []
    image.observers.append(lambda delta, structural: heard.append(delta))
    image.apply(ImageDelta([topic("w")], partitions={"u": [partition(0, OTHER)]}, is_whole=True))
    assert sorted(image.topics) == ["u", "w"]
    assert sorted(heard[0].removed) == ["t", "v"]
    assert image.topics["u"].partitions[0].leader == OTHER


def test_observers_hear_of_each_change_once_it_is_there_and_whether_structure_changed() -> None:
    image = picture(topic("t"))
    heard: list[tuple[ImageDelta, bool, int]] = []
    image.observers.append(
        lambda delta, structural: heard.append((delta, structural, image.version))
    )
    moved = ImageDelta(partitions={"t": [partition(0, OTHER)]})
    gone = ImageDelta(removed=["t"])
    first = image.version
    image.apply(moved)
    image.apply(gone)
    assert heard == [(moved, False, first + 1), (gone, True, first + 2)]


def test_what_is_offline_here_is_shown_without_us_as_leader_and_the_rest_as_it_is() -> None:
    image = picture(topic("t"), topic("u"))
    offline = [("t", 0), ("t", 1), ("u", 1), ("n", 0), ("n", 9), ("gone", 0)]
    delta = ImageDelta(
        [topic("n", 1)], removed=["gone"], partitions={"t": [partition(1, OTHER, 3)]}
    )
    image.apply(with_offline(delta, image, offline, ME))
    first, second = image.topics["t"].partitions
    assert (first.leader, first.offline) == (-1, (ME,))
    assert (second.leader, second.leader_epoch, second.offline) == (OTHER, 3, (ME,))
    assert (image.topics["n"].partitions[0].leader, "gone" in image.topics) == (-1, False)
    assert image.topics["u"] == topic("u")

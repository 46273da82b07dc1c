"""What brokers ask each other, each API: what is done, and how it is refused."""

from struct import pack
from typing import Any

import pytest

from headrace.cluster.peers.peer_call import PeerCall
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.connection.registry import PEER_APIS
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.peer_messages import PEER_MESSAGES
from tests.support.cluster.peer_kit import (
    Asker,
    cut_off,
    head,
    led,
    live,
    mend,
    play,
    shown,
    told,
    topic,
    two,
    wanted,
)

T0 = TopicPartition("t", 0)
ID = b"i" * 16
TABLE = {api.key: api for api in PEER_APIS}


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_broker_leads_and_follows_what_its_controller_says(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        _, other = await two(cluster)
        broker = cluster.brokers[1].broker

        async def ask(*states: dict[str, Any], **changed: Any) -> Any:
            fields = head(cluster, 1, type=1, liveLeaders=[], topicStates=[told("u", ID, *states)])
            return await other.ask(ApiKey.LEADER_AND_ISR, fields | changed, version)

        def errors(response: Any) -> dict[int, ErrorCode]:
            assert response["errorCode"] == ErrorCode.NONE
            (only,) = response["topics"]
            assert only["topicId"] == ID
            return {
                error["partitionIndex"]: ErrorCode(error["errorCode"])
                for error in only["partitionErrors"]
            }

        done = await ask(led(1, 4), led(0, 4, index=1), led(1, 4, index=2, is_new=False))
        assert errors(done) == {
            0: ErrorCode.NONE, 1: ErrorCode.NONE, 2: ErrorCode.KAFKA_STORAGE_ERROR,
        }  # fmt: skip
        assert broker.partition("u", 0).leader_epoch == 4
        assert ("u", 1) not in broker.partitions
        assert errors(await ask(led(1, 3))) == {0: ErrorCode.STALE_CONTROLLER_EPOCH}
        before = cluster.brokers[1].controller.applier
        for changed, code in (
            ({"controllerEpoch": before.controller_epoch - 1}, ErrorCode.STALE_CONTROLLER_EPOCH),
            ({"brokerEpoch": before.broker_epoch - 1}, ErrorCode.STALE_BROKER_EPOCH),
        ):
            assert await ask(led(1, 9), **changed) == {"errorCode": code, "topics": []}
        assert broker.partition("u", 0).leader_epoch == 4

    play(story)


@pytest.mark.parametrize("version", [3, 4])
def test_what_a_broker_is_to_hold_no_longer_is_gone(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        _, other = await two(cluster)
        await topic(cluster, 1)
        broker = cluster.brokers[1].broker

        async def ask(epoch: int, **changed: Any) -> Any:
            state = {"partitionIndex": 0, "leaderEpoch": epoch, "deletePartition": True}
            states = [{"topicName": "t", "partitionStates": [state]}]
            fields = head(cluster, 1, topicStates=states)
            return await other.ask(ApiKey.STOP_REPLICA, fields | changed, version)

        assert await ask(-1) == {
            "errorCode": ErrorCode.NONE,
            "partitionErrors": [
                {
                    "topicName": "t",
                    "partitionIndex": 0,
                    "errorCode": ErrorCode.FENCED_LEADER_EPOCH,
                }
            ],
        }
        stale = await ask(0, controllerEpoch=0)
        assert stale == {"errorCode": ErrorCode.STALE_CONTROLLER_EPOCH, "partitionErrors": []}
        assert list(broker.logs())
        done = await ask(0)
        assert [error["errorCode"] for error in done["partitionErrors"]] == [ErrorCode.NONE]
        assert not list(broker.logs())

    play(story)


@pytest.mark.parametrize("version", [7, 8])
def test_clients_are_shown_what_the_controller_tells(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        _, other = await two(cluster)
        known = await topic(cluster, 0)
        image = cluster.brokers[1].broker.image

        async def ask(*topics: dict[str, Any], **changed: Any) -> ErrorCode:
            brokers = live(cluster, 0, 1)
            fields = head(cluster, 1, type=1, topicStates=list(topics), liveBrokers=brokers)
            answer = await other.ask(ApiKey.UPDATE_METADATA, fields | changed, version)
            return ErrorCode(answer["errorCode"])

        news = told("t", known.topic_id, shown(1, epoch=3)), told("u", ID, shown(0, index=1))
        assert await ask(*news) is ErrorCode.NONE
        (partition,) = image.topics["t"].partitions
        assert (partition.leader, partition.leader_epoch) == (1, 3)
        assert [partition.leader for partition in image.topics["u"].partitions] == [-1, 0]
        assert await ask(told("u", ID, shown(1), shown(1, index=2))) is ErrorCode.NONE
        assert [partition.leader for partition in image.topics["u"].partitions] == [1, 0, 1]
        removed: list[str] = []
        image.observers.append(lambda delta, _: removed.extend(delta.removed))
        assert await ask(told("u", b"j" * 16, shown(0))) is ErrorCode.NONE
        assert removed == ["u"]  # it is another topic of that name
        assert [partition.leader for partition in image.topics["u"].partitions] == [0]
        assert image.topics["u"].topic_id == b"j" * 16
        assert await ask(told("u", b"j" * 16, shown(-2))) is ErrorCode.NONE
        assert "u" not in image.topics
        assert set(image.brokers) == {0, 1}
        assert await ask(liveBrokers=live(cluster, 0), controllerId=0) is ErrorCode.NONE
        assert (set(image.brokers), image.controller_id) == ({0}, 0)
        assert await ask(*news, controllerEpoch=0) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert await ask(*news, brokerEpoch=0) is ErrorCode.STALE_BROKER_EPOCH
        assert await ask(told("v", ID, shown(0, index=-1))) is ErrorCode.INVALID_REQUEST
        assert await ask(told("v", ID, shown(0, index=1 << 30))) is ErrorCode.INVALID_REQUEST
        assert not {"u", "v"} & image.topics.keys()

    play(story)


@pytest.mark.parametrize("version", [0, 1])
def test_a_broker_that_names_no_epoch_hands_over_what_it_leads(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        first, _ = await two(cluster)
        await topic(cluster, 1, 0)
        fields = {"brokerId": 1}
        if version == 0:  # no client id: the frame is made by hand
            answer = await first.call(NoClientId(1))
        else:
            answer = await first.ask(ApiKey.CONTROLLED_SHUTDOWN, fields, version)
        assert answer == {"errorCode": ErrorCode.NONE, "remainingPartitions": []}
        image = cluster.brokers[1].broker.image
        assert image.topics["t"].partitions[0].leader != 1

    play(story)


class NoClientId(PeerCall[Any]):
    """ControlledShutdown v0, whose header ends with the correlation id."""

    def __init__(self, broker: int) -> None:
        super().__init__(ApiKey.CONTROLLED_SHUTDOWN, {"brokerId": broker}, lambda fields: fields)
        self.versions = 0, 0

    def encode(self, version: int, correlation_id: int, client_id: str) -> list[bytes]:
        """Return the whole frame."""
        body = PEER_MESSAGES[self.key].request.encode(self._fields, version)
        return [pack(">ihhi", 8 + len(body), self.key, version, correlation_id), body]


@pytest.mark.parametrize("version", [2, 3])
def test_a_broker_that_stops_is_told_what_it_leads_still(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        first, other = await two(cluster)
        await topic(cluster, 1, 0)
        epoch = cluster.brokers[1].controller.applier.broker_epoch

        async def ask(asker: Asker, broker: int, broker_epoch: int) -> Any:
            fields = {"brokerId": broker, "brokerEpoch": broker_epoch}
            return await asker.ask(ApiKey.CONTROLLED_SHUTDOWN, fields, version)

        async def refusal(asker: Asker, broker: int, broker_epoch: int) -> ErrorCode:
            answer = await ask(asker, broker, broker_epoch)
            assert answer["remainingPartitions"] == []
            return ErrorCode(answer["errorCode"])

        assert await refusal(other, 1, epoch) is ErrorCode.NOT_CONTROLLER
        assert await refusal(first, 1, epoch - 1) is ErrorCode.STALE_BROKER_EPOCH
        assert await ask(first, 1, epoch) == {
            "errorCode": ErrorCode.NONE,
            "remainingPartitions": [],
        }
        image = cluster.brokers[1].broker.image
        assert image.topics["t"].partitions[0].leader != 1

    play(story)


def test_what_nobody_else_can_lead_is_told_unless_there_is_no_other_replica() -> None:
    async def story(cluster: SimCluster) -> None:
        first, _ = await two(cluster)
        await topic(cluster, 1, 0)
        await cluster.controller().create_topics([NewTopic("u", assignment={0: [BrokerId(1)]})])
        fields = {
            "brokerId": 1,
            "brokerEpoch": cluster.brokers[1].controller.applier.broker_epoch,
        }
        alone = {
            "topicId": cluster.brokers[0].broker.image.topics["t"].topic_id,
            "partitions": [wanted(isr=(1,), leader_epoch=0, partition_epoch=0)],
        }
        cut_off(cluster, 0, 1)  # else a replica would join again
        await first.ask(ApiKey.ALTER_PARTITION, {**fields, "topics": [alone]})
        assert await first.ask(ApiKey.CONTROLLED_SHUTDOWN, fields) == {
            "errorCode": ErrorCode.NONE,
            "remainingPartitions": [{"topicName": "t", "partitionIndex": 0}],
        }
        mend(cluster, 0, 1)

    play(story, controlled_shutdown_enable="false")


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_is_told_each_partitions_state_or_why_it_stays(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        first, other = await two(cluster)
        made = await topic(cluster, 1, 0)
        epoch = cluster.brokers[1].controller.applier.broker_epoch

        async def ask(*asked: dict[str, Any], of: bytes = made.topic_id, **changed: Any) -> Any:
            topics = [{"topicId": of, "partitions": list(asked)}]
            fields = {"brokerId": 1, "brokerEpoch": epoch, "topics": topics, **changed}
            return await first.ask(ApiKey.ALTER_PARTITION, fields, version)

        answer = await ask(
            wanted(isr=(1,), leader_epoch=0, partition_epoch=0),
            wanted(isr=(1,), leader_epoch=0, partition_epoch=0, index=1),
        )
        assert answer["errorCode"] == ErrorCode.NONE
        (told_topic,) = answer["topics"]
        assert told_topic["topicId"] == made.topic_id
        written, refused = told_topic["partitions"]
        assert written == {
            "partitionIndex": 0, "errorCode": 0, "leaderId": 1, "leaderEpoch": 0, "isr": [1],
            "leaderRecoveryState": 0, "partitionEpoch": 1,
        }  # fmt: skip
        assert refused["partitionIndex"] == 1
        assert refused["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.controller().broker.image.topics["t"].partitions[0].isr == (1,)
        for asked, code in (
            (wanted(isr=(0,), leader_epoch=0, partition_epoch=1), ErrorCode.INVALID_REQUEST),
            (wanted(isr=(1, 0), leader_epoch=0, partition_epoch=0),
             ErrorCode.INVALID_UPDATE_VERSION),
            (wanted(isr=(1, 0), leader_epoch=1, partition_epoch=1), ErrorCode.NOT_CONTROLLER),
        ):  # fmt: skip
            (only,) = (await ask(asked))["topics"]
            assert only["partitions"][0]["errorCode"] == code
        fine = wanted(isr=(1, 0), leader_epoch=0, partition_epoch=1)
        (only,) = (await ask(fine, of=ID))["topics"]
        assert only["partitions"][0]["errorCode"] == ErrorCode.UNKNOWN_TOPIC_ID
        stale = await ask(fine, brokerEpoch=epoch - 1)
        assert (stale["errorCode"], stale["topics"]) == (ErrorCode.STALE_BROKER_EPOCH, [])
        fields = {"brokerId": 1, "brokerEpoch": epoch, "topics": []}
        elsewhere = await other.ask(ApiKey.ALTER_PARTITION, fields, version)
        assert elsewhere["errorCode"] == ErrorCode.NOT_CONTROLLER

    play(story)


def test_a_broker_that_is_about_to_stop_is_not_let_in_again() -> None:
    async def story(cluster: SimCluster) -> None:
        first, _ = await two(cluster)
        made = await topic(cluster, 0, 1)
        epochs = [cluster.brokers[number].controller.applier.broker_epoch for number in (0, 1)]
        leaving = {"brokerId": 1, "brokerEpoch": epochs[1]}
        answer = await first.ask(ApiKey.CONTROLLED_SHUTDOWN, leaving)
        assert answer["errorCode"] == ErrorCode.NONE
        (partition,) = cluster.brokers[0].broker.image.topics["t"].partitions
        assert (partition.leader, partition.isr, partition.leader_epoch) == (0, (0,), 1)
        asked = wanted(isr=(0, 1), leader_epoch=1, partition_epoch=1)
        topics = [{"topicId": made.topic_id, "partitions": [asked]}]
        fields = {"brokerId": 0, "brokerEpoch": epochs[0], "topics": topics}
        (only,) = (await first.ask(ApiKey.ALTER_PARTITION, fields))["topics"]
        assert only["partitions"][0]["errorCode"] == ErrorCode.INELIGIBLE_REPLICA

    play(story)


def test_a_member_that_has_registered_anew_is_not_let_in() -> None:
    async def story(cluster: SimCluster) -> None:
        first, _ = await two(cluster)
        made = await topic(cluster, 1, 0)
        epoch = cluster.brokers[1].controller.applier.broker_epoch
        own = cluster.brokers[0].controller.applier.broker_epoch
        codes = []
        for former in (own - 1, own):
            asked = wanted(isr=(1, 0), leader_epoch=0, partition_epoch=0)
            asked["newIsrWithEpochs"][1]["brokerEpoch"] = former
            topics = [{"topicId": made.topic_id, "partitions": [asked]}]
            fields = {"brokerId": 1, "brokerEpoch": epoch, "topics": topics}
            (only,) = (await first.ask(ApiKey.ALTER_PARTITION, fields))["topics"]
            codes.append(only["partitions"][0]["errorCode"])
        assert codes == [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NONE]

    play(story)


def test_brokers_are_given_producer_ids_block_by_block() -> None:
    async def story(cluster: SimCluster) -> None:
        first, other = await two(cluster)
        epoch = cluster.brokers[1].controller.applier.broker_epoch

        async def ask(asker: Asker, broker_epoch: int) -> Any:
            fields = {"brokerId": 1, "brokerEpoch": broker_epoch}
            return await asker.ask(ApiKey.ALLOCATE_PRODUCER_IDS, fields)

        given = [await ask(first, epoch) for _ in range(2)]
        assert [block["errorCode"] for block in given] == [ErrorCode.NONE] * 2
        ids = [
            number
            for block in given
            for number in range(
                block["producerIdStart"], block["producerIdStart"] + block["producerIdLen"]
            )
        ]
        assert len(set(ids)) == len(ids) == 2000
        assert (await ask(first, epoch - 1))["errorCode"] == ErrorCode.STALE_BROKER_EPOCH
        assert (await ask(other, epoch))["errorCode"] == ErrorCode.NOT_CONTROLLER

    play(story)


def test_broker_names_the_leader_epochs_that_a_ping_does_not_know() -> None:
    async def story(cluster: SimCluster) -> None:
        cluster.sole_leaders = lambda name: name == "t"
        _, other = await two(cluster)
        known = await topic(cluster, 0, 1)

        async def ask(incarnation: int, number: int) -> Any:
            fields = {"brokerId": 0, "incarnation": incarnation, "number": number, "fences": ()}
            return await other.ask(ApiKey.LEASE_PING, fields)

        first = await ask(-1, 0)
        assert first == {
            "errorCode": ErrorCode.NONE,
            "incarnation": cluster.brokers[1].controller.applier.broker_epoch,
            "number": 1,
            "epochs": [{"topicId": known.topic_id, "partitionIndex": 0, "leaderEpoch": 0}],
            "givenUp": [],
        }
        assert await ask(first["incarnation"], 1) == {**first, "epochs": []}
        assert await ask(first["incarnation"] + 1, 1) == first

    play(story)


def test_ping_is_refused_where_no_topic_needs_a_sole_leader() -> None:
    async def story(cluster: SimCluster) -> None:
        _, other = await two(cluster)
        fields = {"brokerId": 0, "incarnation": -1, "number": 0, "fences": ()}
        answer = await other.ask(ApiKey.LEASE_PING, fields)
        assert answer["errorCode"] == ErrorCode.UNSUPPORTED_VERSION

    play(story)

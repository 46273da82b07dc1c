"""Who is heard as a broker, what such are told is served, and what they know of each other."""

from typing import Any

import pytest

from headrace.client.calls.call import ColdCall
from headrace.frontends.kafka.authentication.authorisation import (
    ASKED_OF_BROKERS,
    CLUSTER_ACTION,
)
from headrace.frontends.kafka.authentication.between_brokers import may_be_replica
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.registry import APIS, PEER_APIS
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.security.identity import Identity
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.peer_messages import PEER_VERSIONS
from tests.support.cluster.peer_kit import (
    BROKERS,
    CLIENTS,
    Asker,
    head,
    led,
    live,
    play,
    shown,
    started,
    told,
    topic,
    two,
    wanted,
)
from tests.support.security.authorisation import Rules
from tests.support.sim.cluster import until

T0 = TopicPartition("t", 0)
TABLE = {api.key: api for api in PEER_APIS if api.key in PEER_VERSIONS}
OF_SHARE_GROUPS = {api.key for api in PEER_APIS if api.key not in PEER_VERSIONS}


def test_each_api_among_brokers_asks_for_the_right_to_act_for_the_cluster() -> None:
    assert TABLE.keys() == PEER_VERSIONS.keys()
    assert {api.key for api in PEER_APIS} == ASKED_OF_BROKERS.keys()
    assert sorted(OF_SHARE_GROUPS) == [83, 84, 85, 86, 87]
    assert set(ASKED_OF_BROKERS.values()) == {(CLUSTER_ACTION,)}
    assert not ASKED_OF_BROKERS.keys() & {api.key for api in APIS}
    for key, api in TABLE.items():
        first, last = PEER_VERSIONS[key]
        # ControlledShutdown of brokers before 1.0 is read by hand: there is no codec to hold it to.
        first = 0 if key is ApiKey.CONTROLLED_SHUTDOWN else first
        assert (api.min_version, api.max_version) == (first, last)


def from_nobody(key: ApiKey, cluster: SimCluster, sender: int) -> dict[str, Any]:
    """Return a request that would be taken if it came from a broker."""
    if key in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA):
        state = {"partitionIndex": 0, "leaderEpoch": -2, "deletePartition": True}
        states = led(1, 9) if key is ApiKey.LEADER_AND_ISR else shown(1)
        if key is ApiKey.STOP_REPLICA:
            states = state
        known = cluster.brokers[0].broker.image.topics["t"].topic_id
        return head(
            cluster, 0, type=1, liveLeaders=[], topicStates=[told("t", known, states)],
            liveBrokers=[], controllerId=sender,
        )  # fmt: skip
    number = sender if sender in cluster.brokers else 0
    epoch = cluster.brokers[number].controller.applier.broker_epoch
    known = cluster.brokers[0].broker.image.topics["t"].topic_id
    asked = wanted(isr=(0,), leader_epoch=0, partition_epoch=0)
    topics = [{"topicId": known, "partitions": [asked]}]
    ping = {"incarnation": -1, "number": 0, "partitions": [], "fences": []}
    session = {"session": 1, "first": 0, "calls": [], "expected": 0, "again": False, "room": 0}
    session["leaderEpoch"] = -1
    fields = {"brokerId": sender, "brokerEpoch": epoch, "topics": topics, "commands": []}
    fields |= {"waits": True, "created": [], "deleted": [], "low": []}
    return fields | ping | session


@pytest.mark.parametrize("key", TABLE, ids=lambda key: key.name)
@pytest.mark.parametrize("why", ["another listener", "nobody of that id", "not permitted"])
def test_whoever_is_no_broker_is_refused_and_nothing_is_done(key: ApiKey, why: str) -> None:
    async def story(cluster: SimCluster) -> None:
        await two(cluster)
        await topic(cluster, 0, 1)
        server = cluster.brokers[0]
        before = server.broker.image.topics["t"]
        stored = await server.controller._store.get_all(
            ["/brokers/topics/t/partitions/0/state", "/latest_producer_id_block"]
        )
        if why == "not permitted":
            server.broker.authorizer = Rules(CLUSTER_ACTION)
        asker = Asker(cluster, 0, CLIENTS if why == "another listener" else BROKERS)
        sender = 7 if why == "nobody of that id" else 0
        answer = await asker.ask(key, from_nobody(key, cluster, sender))
        assert answer["errorCode"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert server.broker.image.topics["t"] is before
        assert server.broker.partition("t", 0).leader_epoch == 0
        assert stored == await server.controller._store.get_all(
            ["/brokers/topics/t/partitions/0/state", "/latest_producer_id_block"]
        )

    play(story)


@pytest.mark.parametrize("version", [4, 5])
def test_only_brokers_add_partitions_to_several_transactions_at_once(version: int) -> None:
    def asked() -> ColdCall[ErrorCode]:
        return ColdCall(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            lambda maker: maker.request(transactions=()),
            lambda response: ErrorCode(response.error_code),
            versions=(version, version),
        )

    async def story(cluster: SimCluster) -> None:
        await cluster.start(0)
        refused = await Asker(cluster, 0, CLIENTS).call(asked())
        assert refused is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await Asker(cluster, 0, BROKERS).call(asked()) is ErrorCode.NONE

    play(story)


def test_a_replica_is_who_comes_by_the_brokers_listener_and_is_another_registered_broker() -> None:
    async def story(cluster: SimCluster) -> None:
        server, _ = await cluster.start(0), await cluster.start(1)
        await started(cluster)

        def context(listener: str) -> RequestContext:
            return RequestContext(
                server.broker, server.coordinators, server.controller, ApiKey.FETCH, 17, "1",
                Identity("broker-1", listener), server.dispatcher.shared,
            )  # fmt: skip

        assert may_be_replica(context("BROKERS"), 1)
        assert not may_be_replica(context("PLAINTEXT"), 1)
        assert not may_be_replica(context("BROKERS"), 0)
        assert not may_be_replica(context("BROKERS"), 2)
        server.broker.authorizer = Rules(CLUSTER_ACTION)
        assert not may_be_replica(context("BROKERS"), 1)

    play(story)


def test_what_brokers_ask_is_told_of_on_their_own_listener_only() -> None:
    async def story(cluster: SimCluster) -> None:
        await cluster.start(0)
        served = {int(api.key): (api.min_version, api.max_version) for api in PEER_APIS}
        told_there = await Asker(cluster, 0, BROKERS).versions()
        told_here = await Asker(cluster, 0, CLIENTS).versions()
        assert told_there == told_here | served
        assert not told_here.keys() & served.keys()

    play(story)


def test_a_broker_that_has_registered_since_is_heard_before_the_picture_shows_it() -> None:
    async def story(cluster: SimCluster) -> None:
        _, other = await two(cluster)
        broker = cluster.brokers[1].broker
        broker.image.brokers = {BrokerId(1): broker.image.brokers[BrokerId(1)]}
        fields = head(cluster, 1, type=1, topicStates=[], liveBrokers=live(cluster, 0, 1))
        answer = await other.ask(ApiKey.UPDATE_METADATA, fields)
        assert answer["errorCode"] == ErrorCode.NONE
        assert set(broker.image.brokers) == {0, 1}

    play(story)


def test_epochs_of_registrations_are_known_though_no_request_tells_them() -> None:
    """A leader knows by them whether a follower is the one that it was."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        images = [cluster.brokers[number].broker.image for number in (0, 1, 2)]

        def agree() -> bool:
            epochs = {
                BrokerId(number): server.controller.applier.broker_epoch
                for number, server in cluster.brokers.items()
            }
            found = [
                {info.broker_id: info.epoch for info in image.brokers.values()} for image in images
            ]
            return all(known == epochs for known in found)

        await until(agree)
        session: Any = cluster.brokers[1].controller._store
        former = cluster.brokers[1].controller.applier.broker_epoch
        cluster.ensemble.expire(session)
        await until(lambda: cluster.brokers[1].controller.applier.broker_epoch > former)
        await until(agree)

    play(story)


def test_a_leader_hands_over_when_its_broker_stops_and_leads_again_nothing_by_itself() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        await topic(cluster, 1, 2)
        seen = []
        image = cluster.brokers[2].broker.image
        image.observers.append(lambda *_: seen.append(image.topics["t"].partitions[0].leader))
        await cluster.stop(1)
        partition = cluster.brokers[2].broker.partition("t", 0)
        assert partition.leader_epoch == 1
        assert -1 not in seen  # at no time was it without a leader
        assert image.topics["t"].partitions[0].isr == (2,)

    play(story)

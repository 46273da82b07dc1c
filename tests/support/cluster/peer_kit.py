"""A simulated cluster whose brokers have a listener of their own, and who asks there as one."""

from typing import Any, TypeVar

from headrace.broker.metadata_image import TopicInfo
from headrace.client.calls.call import Call
from headrace.client.client import Client
from headrace.client.transport.events import EventTransport
from headrace.client.transport.handshake import VersionsCall
from headrace.client.transport.port import Address
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, dotted, until

T = TypeVar("T")

CLIENTS, BROKERS = 9092, 9093
"""Ports of the listener for clients and of the one for brokers."""
TWO_LISTENERS = {
    "listeners": f"PLAINTEXT://:{CLIENTS},BROKERS://:{BROKERS}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def play(story: Story, seed: int = 1, **settings: str) -> None:
    """Play with a cluster in which nothing runs yet; what still runs in the end is stopped."""
    sim_cluster.play(story, seed=seed, settings=TWO_LISTENERS | dotted(settings))


async def started(cluster: SimCluster, *numbers: int) -> None:
    """Start brokers one after the other; returns when all are in everybody's picture."""
    for number in numbers:
        await cluster.start(number)
    there = set(cluster.brokers)
    await until(
        lambda: all(
            set(server.broker.image.brokers) == there and server.controller.applier.controller_epoch
            for server in cluster.brokers.values()
        )
    )


def cut_off(cluster: SimCluster, first: int, second: int) -> None:
    """Let nothing arrive between two brokers, until `mend`."""
    for source, target in ((first, second), (second, first)):
        cluster.network.cut(f"broker-{source}", f"broker-{target}")


def mend(cluster: SimCluster, first: int, second: int) -> None:
    """Let all arrive that was held up."""
    for source, target in ((first, second), (second, first)):
        cluster.network.mend(f"broker-{source}", f"broker-{target}")


class Asker:
    """Who asks one broker, from a machine of its own."""

    def __init__(self, cluster: SimCluster, broker: int, port: int = BROKERS) -> None:
        transport = EventTransport(cluster.network.machine("asker").connect)
        self._client = Client(transport, (), client_id="asker")
        self._address = Address(cluster.worlds[broker].name, port)

    async def ask(self, key: ApiKey, fields: Fields, version: int | None = None) -> Any:
        """Return the response's fields."""
        call: PeerCall[Fields] = PeerCall(key, fields, lambda response: response)
        if version is not None:
            call.versions = version, version
        link = await self._client.link_to(self._address)
        link.versions = {}  # whatever it says that it serves
        return await self._client.ask(link, call)

    async def call(self, call: Call[T]) -> T:
        """Return what a call of the client's gives, whatever the broker says that it serves."""
        link = await self._client.link_to(self._address)
        link.versions = {}
        return await self._client.ask(link, call)

    async def versions(self) -> dict[int, tuple[int, int]]:
        """Return what ApiVersions says."""
        return await self.call(VersionsCall())

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def head(cluster: SimCluster, to: int, **other: Any) -> dict[str, Any]:
    """Return the head of a controller's request to a broker, as its controller would say it now."""
    applier = cluster.brokers[to].controller.applier
    return {
        "controllerId": int(cluster.controller().broker.broker_id),
        "isKRaftController": False,
        "controllerEpoch": applier.controller_epoch,
        "brokerEpoch": applier.broker_epoch,
        **other,
    }


def led(leader: int, epoch: int, *, index: int = 0, is_new: bool = True) -> dict[str, Any]:
    """Return a partition's state in LeaderAndIsr."""
    return {
        "partitionIndex": index,
        "controllerEpoch": 1,
        "leader": leader,
        "leaderEpoch": epoch,
        "isr": [leader],
        "partitionEpoch": epoch,
        "replicas": [0, 1],
        "addingReplicas": [],
        "removingReplicas": [],
        "isNew": is_new,
        "leaderRecoveryState": 0,
    }


def shown(leader: int, *, index: int = 0, epoch: int = 0) -> dict[str, Any]:
    """Return a partition's state in UpdateMetadata."""
    return {
        "partitionIndex": index,
        "controllerEpoch": 1,
        "leader": leader,
        "leaderEpoch": epoch,
        "isr": [leader],
        "zkVersion": epoch,
        "replicas": [leader],
        "offlineReplicas": [],
    }


def live(cluster: SimCluster, *numbers: int) -> list[dict[str, Any]]:
    """Return brokers as UpdateMetadata tells them."""
    return [
        {
            "id": number,
            "endpoints": [
                {
                    "port": endpoint.port,
                    "host": endpoint.host,
                    "listener": endpoint.listener,
                    "securityProtocol": 0,
                }
                for endpoint in cluster.brokers[number].endpoints()
            ],
            "rack": None,
        }
        for number in numbers
    ]


async def two(cluster: SimCluster) -> tuple[Any, Any]:
    """Start two brokers; 0 is the controller. Returns who asks each, as a broker does."""
    await started(cluster, 0, 1)
    return Asker(cluster, 0), Asker(cluster, 1)


async def topic(cluster: SimCluster, *replicas: int) -> TopicInfo:
    """Create the topic t, of one partition."""
    (made,) = await cluster.controller().create_topics(
        [NewTopic("t", assignment={0: [BrokerId(one) for one in replicas]})]
    )
    assert isinstance(made, TopicInfo)
    return made


def told(name: str, topic_id: bytes, *states: dict[str, Any]) -> dict[str, Any]:
    """Return a topic in LeaderAndIsr or UpdateMetadata."""
    return {"topicName": name, "topicId": topic_id, "partitionStates": list(states)}


def wanted(
    *, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, index: int = 0
) -> dict[str, Any]:
    """Return a partition in AlterPartition."""
    return {
        "partitionIndex": index,
        "leaderEpoch": leader_epoch,
        "newIsr": isr,
        "newIsrWithEpochs": [{"brokerId": one, "brokerEpoch": -1} for one in isr],
        "leaderRecoveryState": 0,
        "partitionEpoch": partition_epoch,
    }

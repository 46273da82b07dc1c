"""What ZooKeeper says of the cluster: the truth, where brokers may be behind."""

import json
import logging
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

CONNECT_SECONDS_MAX = 30.0


class StoredPartition(NamedTuple):
    """A partition as the controller wrote it; -1 is no leader."""

    assigned: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    moving: bool

    def whole(self) -> bool:
        """Led, all of its replicas in sync, none of them on the move."""
        in_sync = self.leader in self.isr and set(self.assigned) == set(self.isr)
        return in_sync and not self.moving


class StoredCluster:
    """Reads Kafka's znodes below `connect`, as in `zookeeper.connect`."""

    def __init__(self, connect: str) -> None:
        # That a server went is what a fault was for.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._client = KazooClient(hosts=connect)
        self._client.start(CONNECT_SECONDS_MAX)

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def brokers(self) -> set[int]:
        """The brokers that are registered."""
        return {int(name) for name in self._client.get_children("/brokers/ids")}

    def controller(self) -> int | None:
        try:
            return int(json.loads(self._client.get("/controller")[0])["brokerid"])
        except NoNodeError:
            return None

    def partitions(self) -> dict[tuple[str, int], StoredPartition]:
        """Every partition of every topic."""
        found = {}
        for topic in self._client.get_children("/brokers/topics"):
            stored = json.loads(self._client.get(f"/brokers/topics/{topic}")[0])
            moving = stored.get("adding_replicas", {}) | stored.get("removing_replicas", {})
            for index, assigned in stored["partitions"].items():
                leader, isr = self._state(topic, index)
                found[topic, int(index)] = StoredPartition(
                    tuple(assigned), leader, isr, index in moving
                )
        return found

    def _state(self, topic: str, index: str) -> tuple[int, tuple[int, ...]]:
        """The leader and the ISR; none of them where the controller has written nothing yet."""
        try:
            found, _ = self._client.get(f"/brokers/topics/{topic}/partitions/{index}/state")
        except NoNodeError:
            return -1, ()
        state = json.loads(found)
        return state["leader"], tuple(state["isr"])

    def missing(self, brokers: set[int]) -> list[str]:
        """What keeps the cluster of these brokers from being whole; nothing where it is."""
        try:
            here, partitions = self.brokers(), self.partitions()
        except KazooException as error:
            return [f"ZooKeeper does not answer: {type(error).__name__}"]
        told = [f"broker {number} is not registered" for number in sorted(brokers - here)]
        told += [
            f"{topic}-{index}: replicas {list(partition.assigned)}, leader {partition.leader},"
            f" in sync {list(partition.isr)}{', on the move' * partition.moving}"
            for (topic, index), partition in sorted(partitions.items())
            if not partition.whole()
        ]
        return told

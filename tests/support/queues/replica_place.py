"""A stream whose leader is another broker, and a replica of it on the broker of its channels."""

from typing import Any

from headrace.broker.partition import Partition
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.queue_settings import ConsumerSettings, StreamOffset, StreamStart
from headrace.queues.port import Consumer
from headrace.queues.queue_names import queue_topic
from headrace.remote_queues.home.remote_queue import RemoteQueue
from headrace.remote_queues.home.replica_readers import Replica, ReplicaReaders
from tests.support.amqp.deliveries import ChannelKit
from tests.support.log.log import World
from tests.support.queues.lives import CONFIG, VHOST
from tests.support.queues.moving_place import PRODUCER_ID, MovingPlace

LEADER = BrokerId(1)
AT = TopicPartition(queue_topic(VHOST, "q"), 0)
BYTES_MAX = 1 << 20
FIRST, LAST, NEXT = StreamStart.FIRST, StreamStart.LAST, StreamStart.NEXT


class ReplicaPlace(MovingPlace):
    """The home's replica follows the log of the leader when `replicate` is called."""

    def __init__(self, *, in_sync: bool = True) -> None:
        super().__init__({"x-queue-type": "stream"})
        self.remote.close()
        self.disk = World(config=CONFIG)
        """The home's."""
        self.epoch = 1
        self.in_sync = in_sync
        self.partition = self.new_replica()
        led = self.life.queue()
        self.remote = RemoteQueue(
            VHOST,
            led.declared,
            led.title,
            self.clock,
            moves=True,
            producer_id=PRODUCER_ID,
            touched=self.home.touched,
            replica=Replica(self._find, self.disk.disk, WindowsBytes()),
        )
        self.home.targets["q"] = self.home.targets.elsewhere["q"] = self.remote
        self.begin()

    def begin(self) -> None:
        """Begin a session, once the queue with the replica is made."""
        if hasattr(self, "partition"):
            super().begin()

    def _find(self) -> Partition | None:
        return self.partition if self.in_sync and not self.partition.role.closed else None

    def new_replica(self) -> Partition:
        """Follow the leader with the log on the home's disk."""
        log = self.disk.directory.logs.get(AT)
        if log is None:
            topic_id = self.life.world.directory.logs[AT].topic_id
            log = self.disk.directory.create_log(AT, topic_id, CONFIG)
        partition = Partition(log, flusher=self.disk.directory.flusher)
        partition.role.follow(LEADER, LeaderEpoch(self.epoch))
        return partition

    @property
    def here(self) -> ReplicaReaders:
        """The consumers that the home serves."""
        here = self.remote.consumers.here
        assert here is not None
        return here

    @property
    def leader_log(self) -> Any:
        """The log of the leader."""
        return self.life.world.directory.logs[AT]

    def replicate(self) -> None:
        """Copy what the leader has, and learn its high watermark."""
        self.run_leader()
        follower, log = self.partition.role.follower, self.leader_log
        assert follower is not None
        while (at := self.partition.log.end_offset) < log.end_offset:
            data = log.read(at, BYTES_MAX, below=log.end_offset).data
            follower.append(memoryview(bytearray(data)), log.high_watermark, 0)
            self.disk.settle()
        follower.append(memoryview(b""), log.high_watermark, 0)
        follower.move_start(log.start_offset)
        self.disk.settle()

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self.disk.settle()

    def move(self, *, settled: bool = True) -> None:
        """Kill the leader; the replica follows the next one."""
        super().move(settled=settled)
        self.epoch += 1
        self.partition.role.follow(BrokerId(self.epoch), LeaderEpoch(self.epoch))

    def read(
        self,
        start: StreamStart | int = FIRST,
        tag: str = "c",
        channel: ChannelKit | None = None,
        prefetch: int = 100,
        wanted: frozenset[str] | None = None,
    ) -> Consumer:
        """Add a consumer from an offset on."""
        offset = (
            StreamOffset(StreamStart.OFFSET, start)
            if isinstance(start, int)
            else StreamOffset(start)
        )
        wishes = ConsumerSettings(stream_offset=offset, stream_filter=wanted)
        return self.consume(tag, channel, prefetch=prefetch, wishes=wishes)

    def told_from(self) -> tuple[int, int]:
        """Return the numbers of deliveries by the leader and by the replica."""
        return self.network.counts["Delivered"], self.here.traffic.delivered

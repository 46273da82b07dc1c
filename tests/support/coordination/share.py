"""A member of a share group, request by request: what the tests' own client says and hears."""

import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Producer

from headrace.client.admin.topics import alter_configs, create_topic
from headrace.client.calls.call import ColdCall, HotCall
from headrace.client.sync import connect, run
from headrace.record.batch import CONTROL, iterate, records, size_of
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import share_acknowledge, share_fetch
from headrace.wire.kafka.hot.share_common import AckBatch, AskedPartition, AskedTopic

if TYPE_CHECKING:
    from headrace.client.client import Client

GROUP_RESOURCE = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Given:
    """What one ShareFetch gave."""

    def __init__(self, response: share_fetch.ShareFetchResponse) -> None:
        self.response = response
        self.error = response.error_code
        self.partitions = {
            (topic.topic_id, one.partition): one
            for topic in response.topics
            for one in topic.partitions
        }

    def offsets(self) -> list[int]:
        """Which offsets are the member's now, partition by partition."""
        return [
            offset
            for one in self.partitions.values()
            for first, last, _ in one.acquired
            for offset in range(first, last + 1)
        ]

    def counts(self) -> dict[int, int]:
        """How often each of them was delivered."""
        return {
            offset: count
            for one in self.partitions.values()
            for first, last, count in one.acquired
            for offset in range(first, last + 1)
        }

    def values(self) -> list[bytes]:
        """The values of the records that are meant, in the order of their offsets."""
        mine = set(self.offsets())
        found: dict[int, bytes] = {}
        for one in self.partitions.values():
            for piece in one.records or ():
                for at, header in iterate(piece):
                    if header.attributes & CONTROL:
                        continue
                    for record in records(memoryview(piece)[at : at + size_of(header)]):
                        if record.offset in mine:
                            found[record.offset] = record.value or b""
        return [found[offset] for offset in sorted(found)]

    @property
    def ack_errors(self) -> list[int]:
        """What became of the acknowledgements in the request, partition by partition."""
        return [one.ack_error_code for one in self.partitions.values()]


class ShareMember:
    """One member on one connection. `join`, then `fetch` and `acknowledge`."""

    def __init__(self, bootstrap: str, group: str, member: str) -> None:
        self.client: Client = connect(bootstrap, retry_seconds=20)
        self.group = group
        self.member = member
        self.epoch = 0
        self.session_epoch = 0
        self.assigned: list[tuple[bytes, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    # the group

    def heartbeat(self, epoch: int, topics: Sequence[str] | None = None) -> Any:
        """ShareGroupHeartbeat, once."""
        return run(
            self.client.ask_any(
                ColdCall(
                    ApiKey.SHARE_GROUP_HEARTBEAT,
                    lambda make: make.request(
                        group_id=self.group,
                        member_id=self.member,
                        member_epoch=epoch,
                        subscribed_topic_names=None if topics is None else tuple(topics),
                    ),
                    lambda response: response,
                )
            )
        )

    def join(self, *topics: str) -> Self:
        """Be in the group, and know what to read."""
        self.take(self.heartbeat(0, topics))
        return self

    def stay(self) -> Self:
        """Send a heartbeat and follow what it says."""
        self.take(self.heartbeat(self.epoch))
        return self

    def take(self, answer: Any) -> None:
        """Follow a heartbeat's answer."""
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = [
                (one.topic_id.bytes, index)
                for one in answer.assignment.topic_partitions
                for index in one.partitions
            ]

    def stay_until_assigned(self, count: int = 1) -> Self:
        """Send heartbeats until the member has `count` partitions at least."""
        deadline = time.monotonic() + 30
        while len(self.assigned) < count:
            assert time.monotonic() < deadline, self.assigned
            time.sleep(0.005)
            self.stay()
        return self

    def leave(self) -> Any:
        """Leave the group."""
        return self.heartbeat(-1)

    # records

    def fetch(
        self,
        *acks: tuple[int, int, int],
        partition: tuple[bytes, int] | None = None,
        wait_ms: int = 2000,
        bytes_min: int = 1,
        bytes_max: int = 1 << 20,
        records_max: int = 500,
        exactly: bool = False,
        renew: bool = False,
        epoch: int | None = None,
    ) -> Given:
        """ShareFetch in this member's session; `acks`: first, last, kind, of one partition."""
        epoch = self.session_epoch if epoch is None else epoch
        part = partition or (self.assigned[0] if self.assigned else (bytes(16), 0))
        topics: list[AskedTopic] = []
        if epoch == 0:
            topics = [AskedTopic(topic, [AskedPartition(at)]) for topic, at in self.assigned]
        if acks:
            batches = [AckBatch(first, last, [kind]) for first, last, kind in acks]
            topics = [AskedTopic(part[0], [AskedPartition(part[1], batches)])]
        limits = (0, 0, 0, 0, 0) if renew else (wait_ms, bytes_min, bytes_max, records_max, 500)
        request = share_fetch.ShareFetchRequest(
            self.group, self.member, epoch, *limits, int(exactly), renew, topics
        )
        call = HotCall(
            ApiKey.SHARE_FETCH, share_fetch.encode_request, share_fetch.decode_response, request
        )
        given = Given(run(self.client.ask_any(call)))
        if given.error == 0:
            self.session_epoch = epoch + 1 if epoch >= 0 else 0
        return given

    def acknowledge(
        self,
        *acks: tuple[int, int, int],
        partition: tuple[bytes, int] | None = None,
        renew: bool = False,
        epoch: int | None = None,
    ) -> share_acknowledge.ShareAcknowledgeResponse:
        """ShareAcknowledge in this member's session."""
        epoch = self.session_epoch if epoch is None else epoch
        part = partition or self.assigned[0]
        batches = [AckBatch(first, last, [kind]) for first, last, kind in acks]
        topics = [AskedTopic(part[0], [AskedPartition(part[1], batches)])] if acks else []
        request = share_acknowledge.ShareAcknowledgeRequest(
            self.group, self.member, epoch, renew, topics
        )
        call = HotCall(
            ApiKey.SHARE_ACKNOWLEDGE,
            share_acknowledge.encode_request,
            share_acknowledge.decode_response,
            request,
        )
        answer = run(self.client.ask_any(call))
        if answer.error_code == 0:
            self.session_epoch = epoch + 1 if epoch >= 0 else 0
        return answer


class SharePlace:
    """A topic and a group of its own, which begins at the topic's start."""

    def __init__(self, bootstrap: str, partitions: int = 1, **settings: str) -> None:
        self.bootstrap = bootstrap
        unique = uuid.uuid4().hex
        self.topic, self.group = f"t-{unique}", f"g-{unique}"
        with connect(self.bootstrap) as client:
            run(create_topic(client, self.topic, partitions=partitions))
        self.configure(**{"share.auto.offset.reset": "earliest"}, **settings)

    def configure(self, **settings: str) -> None:
        """Set settings of the group."""
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        with connect(self.bootstrap) as client:
            run(alter_configs(client, GROUP_RESOURCE, self.group, set_=wanted))

    def produce(self, count: int, *, partition: int = 0, batch: int | None = None) -> None:
        """Write `count` records, `batch` of them to a batch."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50})
        for number in range(count):
            producer.produce(self.topic, b"v%d" % number, partition=partition)
            if batch is not None and number % batch == batch - 1:
                assert producer.flush(20) == 0
        assert producer.flush(20) == 0

    def member(self, name: str | None = None) -> ShareMember:
        """A member that has joined and has partitions to read."""
        one = ShareMember(self.bootstrap, self.group, name or str(uuid.uuid4()))
        return one.join(self.topic).stay_until_assigned()


def ack_error(answer: share_acknowledge.ShareAcknowledgeResponse) -> int:
    """The error of the one partition acknowledged."""
    ((one,),) = [topic.partitions for topic in answer.topics]
    return one.error_code

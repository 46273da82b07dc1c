"""Records a second through a share group, each acknowledged explicitly, by members side by side.

Real clients would measure themselves on two cores. These send what the Java client sends: a fetch
of up to 500 records, with the acknowledgements of those before in it.
"""

import asyncio
import time
import uuid
from dataclasses import dataclass

from bench.rebalance import Wire
from headrace.client.calls.call import Maker
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import share_fetch
from headrace.wire.kafka.hot.share_common import AckBatch, AskedPartition, AskedTopic

MEMBERS = 4
RECORDS_MAX = 500
RECORD_BYTES = 100
SECONDS_MAX = 60.0
_ACCEPT, _SET, _GROUP_RESOURCE = 1, 0, 32
_NOT_YET = (14, 15, 16)
_BYTES_MAX = 50 << 20


@dataclass(frozen=True)
class Shared:
    """What all members had."""

    records: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.records / self.seconds


class _Member:
    """Joins, then fetches and acknowledges until told that all is read."""

    def __init__(self, wire: Wire, group: str, topic: str) -> None:
        self._wire = wire
        self._group = group
        self._topic = topic
        self._member = str(uuid.uuid4())
        self._epoch = 0
        self.parts: list[tuple[bytes, int]] = []
        self.records = 0

    async def join(self) -> None:
        """Be in the group, with something to read."""
        epoch, end = 0, time.monotonic() + SECONDS_MAX
        while not self.parts and time.monotonic() < end:
            answer = await self._beat(epoch)
            if answer.error_code in _NOT_YET:
                await asyncio.sleep(0.1)
                continue
            if answer.error_code:
                raise RuntimeError(f"not in the group: {answer.error_code} {answer.error_message}")
            epoch = answer.member_epoch
            if answer.assignment is not None:
                self.parts = [
                    (one.topic_id.bytes, index)
                    for one in answer.assignment.topic_partitions
                    for index in one.partitions
                ]
            if not self.parts:
                await asyncio.sleep(0.2)
        if not self.parts:
            raise RuntimeError(f"nothing to read, or no coordinator, within {SECONDS_MAX:.0f} s")

    async def _beat(self, epoch: int):  # type: ignore[no-untyped-def]  # noqa: ANN202 - kio's
        def build(make: Maker) -> object:
            return make.request(
                group_id=self._group,
                member_id=self._member,
                member_epoch=epoch,
                subscribed_topic_names=(self._topic,) if epoch == 0 else None,
            )

        return await self._wire.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, build)

    async def first(self) -> list[AskedTopic]:
        """What the first records ask to be acknowledged."""
        end = time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            if acks := await self.fetch([]):
                return acks
        raise RuntimeError(f"no record within {SECONDS_MAX:.0f} s")

    async def fetch(self, acks: list[AskedTopic]) -> list[AskedTopic]:
        """One ShareFetch; the acknowledgements of what it gave."""
        topics = acks
        if self._epoch == 0:
            topics = [AskedTopic(topic, [AskedPartition(index)]) for topic, index in self.parts]
        request = share_fetch.ShareFetchRequest(
            self._group, self._member, self._epoch, 200, 1, _BYTES_MAX, RECORDS_MAX, RECORDS_MAX,
            topics=topics,
        )  # fmt: skip
        body = share_fetch.encode_request(2, request)
        head = request_head(ApiKey.SHARE_FETCH, 2, 1, "bench", len(body))
        frame = await self._wire.exchange(head + body)
        answer = share_fetch.decode_response(2, frame[5:])
        if answer.error_code:
            raise RuntimeError(f"ShareFetch: {answer.error_code} {answer.error_message}")
        self._epoch += 1
        found = []
        for topic in answer.topics:
            asked = []
            for one in topic.partitions:
                if one.error_code or one.ack_error_code:
                    raise RuntimeError(f"errors {one.error_code}, {one.ack_error_code}")
                batches = [AckBatch(first, last, [_ACCEPT]) for first, last, _ in one.acquired]
                self.records += sum(last - first + 1 for first, last, _ in one.acquired)
                if batches:
                    asked.append(AskedPartition(one.partition, batches))
            if asked:
                found.append(AskedTopic(topic.topic_id, asked))
        return found


async def _measure(bootstrap: str, topic: str, seconds: float) -> Shared:
    group = f"bench-{uuid.uuid4()}"
    wires = [await Wire.open(bootstrap) for _ in range(MEMBERS)]
    await wires[0].find_group_coordinator()
    await _begin_at_the_start(wires[0], group)
    members = [_Member(wire, group, topic) for wire in wires]
    await asyncio.gather(*(one.join() for one in members))
    # Sessions are opened, state is loaded.
    first = await asyncio.gather(*(one.first() for one in members))
    for one in members:
        one.records = 0
    started = time.monotonic()

    async def run(one: _Member, acks: list[AskedTopic]) -> None:
        while acks or time.monotonic() < started + seconds:
            acks = await one.fetch(acks)
            if time.monotonic() > started + seconds:
                break

    await asyncio.gather(*(run(one, acks) for one, acks in zip(members, first, strict=True)))
    took = time.monotonic() - started
    for wire in wires:
        wire.close()
    return Shared(sum(one.records for one in members), took)


async def _begin_at_the_start(wire: Wire, group: str) -> None:
    def build(make: Maker) -> object:
        config = make.part(
            "AlterableConfig",
            name="share.auto.offset.reset",
            config_operation=_SET,
            value="earliest",
        )
        wanted = make.part(
            "AlterConfigsResource",
            resource_type=_GROUP_RESOURCE,
            resource_name=group,
            configs=(config,),
        )
        return make.request(resources=(wanted,), validate_only=False)

    answer = await wire.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, build)
    if answer.responses[0].error_code:
        raise RuntimeError(str(answer.responses[0].error_message))


def measure(bootstrap: str, topic: str, seconds: float) -> Shared:
    """Have what `topic` holds read and acknowledged by a new group, for about so long."""
    return asyncio.run(_measure(bootstrap, topic, seconds))

"""The way of a group's request through its codec and handler to a coordinator and back."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from headrace.broker.metadata_image import (
    BrokerInfo,
    Endpoint,
    ImageDelta,
    MetadataImage,
    PartitionInfo,
    TopicInfo,
)
from headrace.config.broker import load
from headrace.coordination.share.share_service import ShareService
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.handler import RequestContext, load_handler
from headrace.model.nouns import OFFSETS_TOPIC, BrokerId, LeaderEpoch
from headrace.net.pending import Pending
from headrace.security.audit import Audit
from headrace.security.authorizer import AllowsAll
from headrace.security.identity import Identity
from headrace.wire.kafka import kio_codec
from tests.support.coordination.groups_kit import CountingRandom, InlineDisk, Room

TOPIC_ID = bytes(range(16))
NO_ID = UUID(int=1)


def versions(api: Api) -> list[int]:
    return list(range(api.min_version, api.max_version + 1))


def topic(name: str, topic_id: bytes, partitions: int) -> TopicInfo:
    me = BrokerId(0)
    return TopicInfo(
        name,
        topic_id,
        tuple(
            PartitionInfo(index, me, LeaderEpoch(0), (me,), (me,)) for index in range(partitions)
        ),
    )


class Wire:
    """A broker of one coordinator, and the way a request takes through it."""

    def __init__(self) -> None:
        self.room = Room()
        me = BrokerInfo(BrokerId(0), (Endpoint("PLAINTEXT", "here", 9092),))
        image = MetadataImage("cluster")
        topics = [topic("t", TOPIC_ID, 2), topic(OFFSETS_TOPIC, bytes(16), 1)]
        image.apply(ImageDelta(topics, brokers=[me], controller_id=BrokerId(0)))
        transactions = SimpleNamespace(led=self.room.groups.led)
        broker: Any = SimpleNamespace(
            image=image,
            config=load()[0],
            clock=self.room.clock,
            random=CountingRandom(),
            disk=InlineDisk(),
            partition_by_id=None,
            authorizer=AllowsAll(),
            audit=Audit(self.room.clock),
        )
        self.broker = broker
        self.coordinators = SimpleNamespace(
            groups=self.room.groups,
            transactions=transactions,
            share=ShareService(broker, self.room.world, lambda: self.room.groups),
        )
        self.controller = SimpleNamespace()

    def context(self, api: Api, version: int) -> RequestContext:
        broker: Any = self.broker
        coordinators: Any = self.coordinators
        controller: Any = self.controller
        who = Identity("127.0.0.1", "PLAINTEXT")
        return RequestContext(broker, coordinators, controller, api.key, version, "client", who)

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        """Handle a request of kio's, encoded and decoded again; the answer likewise."""
        request_type = kio_codec.request_type(api.key, version)
        known = request_type.__dataclass_fields__
        request = request_type(**{name: one for name, one in values.items() if name in known})
        sent = kio_codec.decode_request(
            api.key, version, memoryview(kio_codec.encode_body(request))
        )
        answer = load_handler(api)(self.context(api, version), sent)
        return self.received(api, version, answer)

    def received(self, api: Api, version: int, answer: Any) -> Any:
        if asyncio.iscoroutine(answer):
            answer = asyncio.run(self._finished(answer))
        if isinstance(answer, Pending):
            self.room.clock.advance()
            assert answer.done
            body = answer.body
        else:
            body = kio_codec.encode_body(answer)
        assert isinstance(body, bytes)
        return kio_codec.decode_response(api.key, version, memoryview(body))

    async def _finished(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await a handler whose answer is there once time has passed."""
        task = asyncio.ensure_future(work)
        for _ in range(5):
            await asyncio.sleep(0)
        self.room.clock.advance()
        return await asyncio.wait_for(task, 10)

    def nested(self, api: Api, version: int, part_name: str, /, **values: Any) -> Any:
        """A part of a request."""
        part = getattr(kio_codec.entity_module(api.key, version).request, part_name)
        known = part.__dataclass_fields__
        return part(**{key: one for key, one in values.items() if key in known})

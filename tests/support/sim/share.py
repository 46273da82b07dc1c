"""A member of a share group in a simulation, on our own client: what it holds, what it settled."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from headrace.client.calls.call import ColdCall, HotCall, Maker, check
from headrace.client.client import Client
from headrace.client.transport.port import ClientError, Link
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.api import ApiKey as K
from headrace.wire.kafka.hot import share_acknowledge, share_fetch
from headrace.wire.kafka.hot.share_common import AckBatch, AskedPartition, AskedTopic

GAP, ACCEPT, RELEASE, REJECT = range(4)
GROUP_RESOURCE = 32
_REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


class Held(NamedTuple):
    """One record out with the member."""

    partition: int
    offset: int
    tries: int


class _Session:
    """Of one broker: which partitions are fetched there, on which connection."""

    def __init__(self, link: Link, parts: frozenset[int]) -> None:
        self.link = link
        self.parts = parts
        self.epoch = 0


class SimShareMember:
    """Reads one topic. `settled` is told what was acknowledged, and whether that is certain."""

    def __init__(self, client: Client, group: str, name: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.member = str(uuid5(UUID(int=0), name))
        self.topic = topic
        self.topic_id = bytes(16)
        self.epoch = 0
        self.assigned: frozenset[int] = frozenset()
        self._sessions: dict[int, _Session] = {}

    async def beat(self, epoch: int | None = None) -> None:
        """Send a heartbeat and follow what it says; join where the group does not know it."""
        asked = self.epoch if epoch is None else epoch
        try:
            answer = await self.client.ask_coordinator(self.group, self._heartbeat(asked))
        except ApiError as error:
            if error.code not in _REJOIN:
                raise
            self.epoch = 0
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            parts = {
                (topic.topic_id.bytes, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }
            self.assigned = frozenset(index for _, index in parts)
            self.topic_id = next((topic_id for topic_id, _ in parts), self.topic_id)

    def _heartbeat(self, epoch: int) -> ColdCall[Any]:
        """In full each time, as clients send it after one whose answer was lost."""

        def build(maker: Maker) -> Any:
            return maker.request(
                group_id=self.group, member_id=self.member, member_epoch=epoch,
                subscribed_topic_names=(self.topic,),
            )  # fmt: skip

        def parse(response: Any) -> Any:
            check(response.error_code, response.error_message)
            return response

        return ColdCall(K.SHARE_GROUP_HEARTBEAT, build, parse)

    async def fetch(self, wait_ms: int = 200) -> list[Held]:
        """Fetch once of each leader of what is assigned; what is the member's now."""
        known = await self.client.metadata([self.topic])
        by_leader: dict[int, set[int]] = {}
        for index in self.assigned:
            by_leader.setdefault(known.leader(self.topic, index), set()).add(index)
        for gone in self._sessions.keys() - by_leader:
            del self._sessions[gone]
        held: list[Held] = []
        for leader, parts in by_leader.items():
            session = await self._session(leader, frozenset(parts))
            topics = [AskedTopic(self.topic_id, [AskedPartition(index) for index in sorted(parts)])]
            request = share_fetch.ShareFetchRequest(
                self.group, self.member, session.epoch, wait_ms, 1, 1 << 20, 100, 100, 0, False,
                topics if session.epoch == 0 else [],
            )  # fmt: skip
            call = HotCall(
                K.SHARE_FETCH, share_fetch.encode_request, share_fetch.decode_response, request
            )
            response = await self._ask(leader, session, call)
            held += [
                Held(part.partition, offset, tries)
                for topic in response.topics
                for part in topic.partitions
                for first, last, tries in part.acquired
                for offset in range(first, last + 1)
            ]
        return held

    async def acknowledge(self, held: Sequence[Held], kind: int) -> list[Held]:
        """Settle records of partitions whose leader has a session; those it was told of."""
        done: list[Held] = []
        for leader, session in tuple(self._sessions.items()):
            mine = [one for one in held if one.partition in session.parts]
            if not mine or session.epoch == 0:
                continue
            parts = {
                index: [AckBatch(one.offset, one.offset, [kind])
                        for one in sorted(mine) if one.partition == index]
                for index in sorted({one.partition for one in mine})
            }  # fmt: skip
            topics = [AskedTopic(self.topic_id, [AskedPartition(*part) for part in parts.items()])]
            request = share_acknowledge.ShareAcknowledgeRequest(
                self.group, self.member, session.epoch, False, topics
            )
            call = HotCall(
                K.SHARE_ACKNOWLEDGE, share_acknowledge.encode_request,
                share_acknowledge.decode_response, request,
            )  # fmt: skip
            response = await self._ask(leader, session, call)
            well = {
                part.partition for topic in response.topics for part in topic.partitions
                if part.error_code == 0
            }  # fmt: skip
            done += [one for one in mine if one.partition in well]
        return done

    async def _session(self, leader: int, parts: frozenset[int]) -> _Session:
        link = await self.client.broker(leader)
        session = self._sessions.get(leader)
        if session is None or session.link is not link or session.parts != parts:
            session = self._sessions[leader] = _Session(link, parts)
        return session

    async def _ask(self, leader: int, session: _Session, call: HotCall[Any, Any]) -> Any:
        try:
            response = await self.client.ask(session.link, call)
            check(response.error_code)
        except (ApiError, ClientError):
            self._sessions.pop(leader, None)
            raise
        session.epoch += 1
        return response

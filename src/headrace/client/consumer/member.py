"""A member of a consumer group, classic protocol: join, sync, heartbeat, commit, leave.

The caller drives it: `heartbeat` between two fetches, and `join` again when that returns False.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from headrace.client.admin import groups
from headrace.client.admin.groups import Committed
from headrace.client.calls.call import ColdCall, HotCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.client.consumer.subscription import (
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import heartbeat as heartbeat_codec

_LOST = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
"""Errors after which the member must rejoin the group."""


class Member:
    """A membership in a consumer group; `assignment` is valid until `heartbeat` returns False."""

    def __init__(
        self,
        client: Client,
        group: str,
        topics: Sequence[str],
        *,
        session_seconds: float = 30.0,
        rebalance_seconds: float = 60.0,
        instance_id: str | None = None,
    ) -> None:
        self.client = client
        self.group = group
        self.topics = list(topics)
        self.session_seconds = session_seconds
        self.rebalance_seconds = rebalance_seconds
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.assignment: Sequence[TopicPartition] = ()
        self._beat_at = 0.0
        self._not_shared: Sequence[str] = ()
        """Subscribed topics of the group that were missing from the metadata when this leader
        assigned."""

    async def join(self) -> Sequence[TopicPartition]:
        """Join the group, retrying until the member has a generation; return its assigned
        partitions."""
        while True:
            try:
                joined = await self._ask_join()
                self.generation = int(joined.generation_id)
                self._not_shared = ()
                shares = await self._share_out(joined) if joined.leader == self.member_id else {}
                self.assignment = await self._ask_sync(joined, shares)
            except ApiError as error:
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                elif error.code not in _LOST:
                    raise
                continue
            self._beat_at = self.client.transport.now()
            return self.assignment

    async def _ask_join(self) -> Any:  # noqa: ANN401 - kio's entity
        def build(maker: Maker) -> Any:  # noqa: ANN401
            metadata = encode_subscription(self.topics)
            return maker.request(
                group_id=self.group,
                session_timeout=timedelta(seconds=self.session_seconds),
                rebalance_timeout=timedelta(seconds=self.rebalance_seconds),
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=(
                    maker.part("JoinGroupRequestProtocol", name="range", metadata=metadata),
                ),
            )

        def parse(response: Any) -> Any:  # noqa: ANN401
            if error_code(response.error_code) is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                return None
            check(response.error_code, f"joining group {self.group}")
            self.member_id = response.member_id
            return response

        call = ColdCall(ApiKey.JOIN_GROUP, build, parse, versions=(2, 9))
        while True:
            joined = await self.client.ask_coordinator(
                self.group, call, wait_seconds=self.rebalance_seconds
            )
            if joined is not None:
                return joined

    async def _share_out(self, joined: Any) -> dict[str, bytes]:  # noqa: ANN401
        members = {
            member.member_id: decode_subscription(member.metadata) for member in joined.members
        }
        topics = sorted({topic for wanted in members.values() for topic in wanted})
        known = await self.client.metadata(topics)
        counts = {
            name: len(topic.partitions)
            for name, topic in known.topics.items()
            if not topic.error_code
        }
        self._not_shared = [name for name in topics if name not in counts]
        given = assign_ranges(members, counts)
        return {member: encode_assignment(partitions) for member, partitions in given.items()}

    async def _ask_sync(
        self,
        joined: Any,  # noqa: ANN401
        shares: Mapping[str, bytes],
    ) -> Sequence[TopicPartition]:
        def build(maker: Maker) -> Any:  # noqa: ANN401
            return maker.request(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=tuple(
                    maker.part("SyncGroupRequestAssignment", member_id=member, assignment=share)
                    for member, share in shares.items()
                ),
            )

        def parse(response: Any) -> Sequence[TopicPartition]:  # noqa: ANN401
            check(response.error_code, f"joining group {self.group}")
            return decode_assignment(response.assignment) if response.assignment else ()

        return await self.client.ask_coordinator(
            self.group,
            ColdCall(ApiKey.SYNC_GROUP, build, parse),
            wait_seconds=self.rebalance_seconds,
        )

    async def heartbeat(self) -> bool:
        """Send a heartbeat if it is due; return False if the member must `join` again.

        Also False on the group's leader when a topic exists now that it could not assign before: a
        broker that has just started does not know all topics yet.
        """
        now = self.client.transport.now()
        if now - self._beat_at < self.session_seconds / 10:
            return True
        self._beat_at = now
        request = heartbeat_codec.HeartbeatRequest(
            self.group, self.generation, self.member_id, self.instance_id
        )
        call = HotCall(
            ApiKey.HEARTBEAT,
            heartbeat_codec.encode_request,
            heartbeat_codec.decode_response,
            request,
        )

        async def attempt() -> bool:
            link = await self.client.coordinator(0, self.group)
            response = await self.client.ask(link, call)
            code = error_code(response.error_code)
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            if code in _LOST:
                return False
            check(code, f"group {self.group}")
            return True

        return await self.client.retrying(attempt) and not await self._finds_more()

    async def _finds_more(self) -> bool:
        """Return whether a topic that was missing at the assignment exists now."""
        if not self._not_shared:
            return False
        known = await self.client.metadata(sorted({*self.topics, *self._not_shared}))
        return any(not known.topics[name].error_code for name in self._not_shared)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> bool:
        """Commit offsets for the group; return False if the generation is over and nothing was
        stored."""
        try:
            await groups.commit(
                self.client,
                self.group,
                offsets,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
            )
        except ApiError as error:
            if error.code in _LOST:
                return False
            raise
        return True

    async def leave(self) -> None:
        """Leave the group so that its partitions are reassigned at once.

        A static member does not leave: its partitions stay assigned to it.
        """
        if not self.member_id or self.instance_id is not None:
            return

        def build(maker: Maker) -> Any:  # noqa: ANN401
            members: tuple[Any, ...] = ()
            if maker.version >= 3:
                members = (maker.part("MemberIdentity", member_id=self.member_id),)
            return maker.request(group_id=self.group, member_id=self.member_id, members=members)

        call = ColdCall(ApiKey.LEAVE_GROUP, build, lambda response: int(response.error_code))
        link = await self.client.coordinator(0, self.group)
        await self.client.ask(link, call)
        self.member_id = ""

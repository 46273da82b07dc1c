"""A member of a share group (KIP-932): join, heartbeat, leave.

The caller drives it: `heartbeat` between two fetches. `share_consumer` reads the records.
"""

import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ApiKey

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
"""Errors after which the member must rejoin the group."""
_JOIN, _LEAVE = 0, -1
UNASSIGNED_SECONDS = 0.25
"""Seconds between heartbeats while no partition is assigned: a response brings the assignment."""


class ShareMember:
    """A membership in a share group; each heartbeat's response may change `assignment`."""

    def __init__(self, client: Client, group: str, topics: Sequence[str]) -> None:
        self.client = client
        self.group = group
        self.topics = tuple(topics)
        # As Kafka writes a UUID: 22 characters.
        self.member_id = urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        self.assignment: frozenset[tuple[bytes, int]] = frozenset()
        """Topic id and number of each assigned partition."""
        self._epoch = _JOIN
        self._due = 0.0

    @property
    def joined(self) -> bool:
        """Whether the group has accepted this member, by the last response."""
        return self._epoch != _JOIN

    async def heartbeat(self) -> None:
        """Send a heartbeat if it is due, joining the group if needed. ApiError if the group
        refuses."""
        if self.joined and self.client.transport.now() < self._due:
            return
        answer = await self._ask(self._epoch)
        if error_code(answer.error_code) in _LOST and self.joined:
            self._epoch, self.assignment = _JOIN, frozenset()
            answer = await self._ask(_JOIN)
        check(answer.error_code, answer.error_message)
        self._epoch = int(answer.member_epoch)
        if answer.assignment is not None:
            self.assignment = frozenset(
                (topic.topic_id.bytes, int(partition))
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        interval = answer.heartbeat_interval.total_seconds()
        if not self.assignment:
            interval = min(interval, UNASSIGNED_SECONDS)
        self._due = self.client.transport.now() + interval

    async def leave(self) -> None:
        """Leave the group so that its partitions are reassigned at once."""
        if self.joined:
            link = await self.client.coordinator(0, self.group)
            await self.client.ask(link, self._call(_LEAVE))
            self._epoch = _JOIN

    async def _ask(self, epoch: int) -> Any:  # noqa: ANN401 - kio's entity
        return await self.client.ask_coordinator(self.group, self._call(epoch))

    def _call(self, epoch: int) -> ColdCall[Any]:
        def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
            # All fields each time: after a lost response, the client cannot know what the group has
            # stored.
            return maker.request(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=epoch,
                subscribed_topic_names=self.topics,
            )

        def parse(response: Any) -> Any:  # noqa: ANN401 - kio's entity
            if error_code(response.error_code) not in _LOST:
                check(response.error_code, response.error_message)
            return response

        return ColdCall(ApiKey.SHARE_GROUP_HEARTBEAT, build, parse)

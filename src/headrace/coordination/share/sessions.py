"""Share sessions: which partitions a member fetches, named once and then only by changes.

A session ends with the connection it was opened on or by the member's last request, not when the
member leaves the group: what it holds is settled or given back there. Locks end with their time.
"""

from collections import OrderedDict
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = (1 << 31) - 1

TopicPart = tuple[bytes, int]
"""Topic id and partition."""


class SessionKey(NamedTuple):
    """A member of a group."""

    group: str
    member: str


class ShareSession:
    """The partitions one member fetches, in the order in which they have their turn."""

    __slots__ = ("epoch", "key", "partitions")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = 1
        """The next request's."""
        self.partitions: OrderedDict[TopicPart, None] = OrderedDict()

    def update(self, added: list[TopicPart], forgotten: list[TopicPart]) -> None:
        """Take in what a request adds and forgets."""
        for part in added:
            self.partitions.setdefault(part)
        for part in forgotten:
            self.partitions.pop(part, None)

    def had_turn(self, part: TopicPart) -> None:
        """Put a partition that gave records last for the next time: all get their turn."""
        if part in self.partitions:
            self.partitions.move_to_end(part)


class ShareSessions:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, sessions_max: int) -> ShareSession:
        """Open a session, in place of the one the member had.

        ApiError: SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key)
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """Resume the session of a request, taken to its next epoch; any epoch ends it.

        ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def close(self, session: ShareSession) -> bool:
        """Forget a session; False where it is forgotten, or another took its place."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        return True

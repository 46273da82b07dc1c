"""`ShareSessions`: share sessions (KIP-932): a member's fetched partitions, changed incrementally.

A session ends with its connection or with the member's final request, not when the member leaves
the group. Then its acquired records are released; acquisition locks also end by timeout.
"""

from collections import OrderedDict
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = (1 << 31) - 1

TopicPart = tuple[bytes, int]
"""Topic id and partition index."""


class SessionKey(NamedTuple):
    """A group id and a member id."""

    group: str
    member: str


class ShareSession:
    """The partitions that one member fetches, in the order in which they are read next."""

    __slots__ = ("epoch", "key", "partitions")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = 1
        """Epoch that the next request must have."""
        self.partitions: OrderedDict[TopicPart, None] = OrderedDict()

    def update(self, added: list[TopicPart], forgotten: list[TopicPart]) -> None:
        """Add and remove the partitions that a request names."""
        for part in added:
            self.partitions.setdefault(part)
        for part in forgotten:
            self.partitions.pop(part, None)

    def had_turn(self, part: TopicPart) -> None:
        """Move a partition that returned records to the end, so that all are read in turn."""
        if part in self.partitions:
            self.partitions.move_to_end(part)


class ShareSessions:
    """The share sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, sessions_max: int) -> ShareSession:
        """Open a session in place of the member's former one.

        ApiError SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key)
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request and increase its epoch; FINAL_EPOCH is always accepted.

        ApiError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
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
        """Remove a session; return False if it was removed or replaced before."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        return True

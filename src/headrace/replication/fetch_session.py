"""`FetchSession`: a follower's side of an incremental fetch session (KIP-227)."""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.hot.fetch import FetchPartition, FetchTopic, ForgottenTopic

Key = tuple[bytes, int]
"""A partition by topic id and number."""

_NO_SESSION = 0
_FIRST_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Told(NamedTuple):
    """The partition lists of the next Fetch request."""

    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """The fetch session with one leader. It sends nothing itself."""

    __slots__ = ("epoch", "session_id", "told")

    def __init__(self) -> None:
        """Make a session object without a session."""
        self.session_id = _NO_SESSION
        self.epoch = _FIRST_EPOCH
        """The session epoch of the next request."""
        self.told: dict[Key, FetchPartition] = {}
        """The fetch parameters that the leader has for each partition of the session."""

    @property
    def begins(self) -> bool:
        """Whether the next request must list all partitions."""
        return self.epoch == _FIRST_EPOCH

    def begin_anew(self) -> None:
        """Begin a new session with the next request; the leader then ends the present one."""
        self.epoch = _FIRST_EPOCH

    def tell(self, changed: Iterable[tuple[Key, FetchPartition | None]]) -> Told:
        """Return the changes for the next request; None removes a partition from the session."""
        if self.begins:
            self.told.clear()
        topics: dict[bytes, list[FetchPartition]] = {}
        forgotten: dict[bytes, list[int]] = {}
        for key, asked in changed:
            topic_id, index = key
            if asked is None:
                if self.told.pop(key, None) is not None:
                    forgotten.setdefault(topic_id, []).append(index)
            elif self.told.get(key) != asked:
                self.told[key] = asked
                topics.setdefault(topic_id, []).append(asked)
        return Told(
            [FetchTopic("", topic_id, some) for topic_id, some in topics.items()],
            [ForgottenTopic("", topic_id, some) for topic_id, some in forgotten.items()],
        )

    def answered(self, error_code: int, session_id: int) -> bool:
        """Process a response; return False if a new session must begin. ApiError: any other error.

        A leader without room for a session returns id 0: each request then lists all partitions.
        """
        if error_code in _SESSION_ERRORS:
            self.begin_anew()
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = _NO_SESSION
            return False
        if error_code:
            raise ApiError(ErrorCode(error_code))
        self.session_id = session_id
        if session_id == _NO_SESSION:
            self.epoch = _FIRST_EPOCH
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return True

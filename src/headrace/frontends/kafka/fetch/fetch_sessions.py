"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes.

A session stores the last request and the last answer for each partition. An incremental answer
leaves out partitions without news. A session belongs to the principal that opened it, not to a
connection: for others it does not exist. Their number is limited
(max.incremental.fetch.session.cache.slots). Followers' sessions are separate, so that clients can
neither evict nor use them.
"""

from collections import OrderedDict

from headrace.frontends.kafka.fetch.wanted_by_follower import WantedByFollower
from headrace.frontends.kafka.fetch.wanted_partitions import WantedPartitions
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.clock import Clock, Random
from headrace.security.identity import ANONYMOUS, Principal
from headrace.wire.kafka.hot.fetch import FetchRequest

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
EVICTION_SECONDS = 120.0
"""Seconds for which a used session is not evicted.

Kafka's min.incremental.fetch.session.eviction.ms.
"""
_EPOCH_MAX = (1 << 31) - 1
TOPIC_IDS_FROM = 13


class FetchSession:
    """The partitions that one client fetches, in the order of their turns."""

    __slots__ = (
        "by_id", "created", "epoch", "owner", "replica_epoch", "replica_id", "session_id", "used",
        "wanted",
    )  # fmt: skip

    def __init__(
        self, session_id: int, by_id: bool, now: float, request: FetchRequest, owner: Principal
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.replica_id = request.replica_id
        self.replica_epoch = request.replica_epoch
        self.by_id = by_id
        self.epoch = 1
        self.created = self.used = now
        self.wanted = _nothing_wanted(request, kept=True)

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        wanted = self.wanted
        for topic in request.topics:
            name = topic.topic_id if self.by_id else topic.name
            for asked in topic.partitions:
                wanted.put((name, asked.partition), asked)
        for forgotten in request.forgotten:
            name = forgotten.topic_id if self.by_id else forgotten.name
            for index in forgotten.partitions:
                wanted.remove((name, index))


class FetchSessions:
    """The incremental fetch sessions of one broker, those of clients and of followers."""

    def __init__(self, clock: Clock, random: Random, sessions_max: int) -> None:
        self._now = clock.monotonic
        self._random = random
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Clients' sessions, least recently used first."""
        self._followers: OrderedDict[int, FetchSession] = OrderedDict()
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions) + len(self._followers)

    def open(
        self, version: int, request: FetchRequest, owner: Principal = ANONYMOUS
    ) -> FetchSession | None:
        """Open a session for a full fetch; return None if there is no room for one.

        Closes the client's previous session. Only `owner` can use the new one.
        """
        self.close(request.session_id, request.replica_id, owner)
        partitions = sum(len(topic.partitions) for topic in request.topics)
        if not partitions:
            return None
        if request.replica_id >= 0:
            self._close_former(request)
        elif not self._place_for(partitions):
            return None
        by_id = version >= TOPIC_IDS_FROM
        session = FetchSession(self._new_id(), by_id, self._now(), request, owner)
        session.update(request)
        self._of(request.replica_id)[session.session_id] = session
        return session

    def resume(
        self, version: int, request: FetchRequest, owner: Principal = ANONYMOUS
    ) -> FetchSession:
        """Return the session of an incremental fetch, with its next epoch and the request applied.

        Raises ApiError: FETCH_SESSION_ID_NOT_FOUND (also for another principal's session),
        INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR (names replaced by ids, or ids by
        names).
        """
        sessions = self._of(request.replica_id)
        session = sessions.get(request.session_id)
        if (
            session is None
            or session.replica_id != request.replica_id
            or (session.owner is not owner and session.owner != owner)
        ):
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= TOPIC_IDS_FROM):
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used = self._now()
        session.update(request)
        sessions.move_to_end(session.session_id)
        return session

    def close(self, session_id: int, replica_id: int = -1, owner: Principal = ANONYMOUS) -> None:
        """Close a session of a client or a follower; another owner's session is ignored."""
        session = self._of(replica_id).get(session_id)
        if session is not None and (session.replica_id, session.owner) == (replica_id, owner):
            self._forget(session)

    def _forget(self, session: FetchSession) -> None:
        del self._of(session.replica_id)[session.session_id]
        session.wanted.close()

    def _of(self, replica_id: int) -> OrderedDict[int, FetchSession]:
        return self._sessions if replica_id < 0 else self._followers

    def _close_former(self, request: FetchRequest) -> None:
        """Close a follower's sessions that it has lost, by a restart or by not using them."""
        used_before = self._now() - EVICTION_SECONDS
        for session in list(self._followers.values()):
            if session.replica_id == request.replica_id and (
                session.replica_epoch != request.replica_epoch or session.used < used_before
            ):
                self._forget(session)

    def _new_id(self) -> int:
        while True:
            drawn = int.from_bytes(self._random.uuid()[:4], "big") & _EPOCH_MAX
            taken = drawn in self._sessions or drawn in self._followers
            if drawn != NO_SESSION and not taken:
                return drawn

    def _place_for(self, partitions: int) -> bool:
        """Tell whether a session with so many partitions has room; may evict another one."""
        if len(self._sessions) < self._sessions_max:
            return True
        if not self._sessions:
            return False
        now = self._now()
        oldest = next(iter(self._sessions.values()))
        if now - oldest.used > EVICTION_SECONDS:
            self._evict(oldest)
            return True
        settled = [s for s in self._sessions.values() if now - s.created > EVICTION_SECONDS]
        smallest = min(settled, key=lambda s: len(s.wanted.by_key), default=None)
        if smallest is not None and len(smallest.wanted.by_key) < partitions:
            self._evict(smallest)
            return True
        return False

    def _evict(self, session: FetchSession) -> None:
        self.evicted += 1
        self._forget(session)


def _nothing_wanted(request: FetchRequest, *, kept: bool) -> WantedPartitions:
    """Return an empty set of partitions, of the kind that the request needs."""
    if request.replica_id >= 0:
        return WantedByFollower(BrokerId(request.replica_id), kept=kept)
    return WantedPartitions(kept=kept)


def wanted_of(version: int, request: FetchRequest) -> WantedPartitions:
    """Return the partitions that a Fetch request without a session asks for."""
    by_id = version >= TOPIC_IDS_FROM
    wanted = _nothing_wanted(request, kept=False)
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.name
        for asked in topic.partitions:
            wanted.put((name, asked.partition), asked)
    return wanted

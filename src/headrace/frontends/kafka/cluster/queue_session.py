"""The session that a request about another broker's queues names."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.peers.peer_call import Fields
from headrace.model.nouns import BrokerId
from headrace.remote_queues.leader.queue_sessions import QueueSessions, SessionName

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


class NamedSession(NamedTuple):
    """A home's session among those of this broker, which may have ended."""

    sessions: QueueSessions
    home: BrokerId
    name: SessionName


def session_of(peers: "PeerPort", request: Fields) -> NamedSession:
    """Return the session of a request; raise ApiError as `PeerPort.queue_sessions_of`."""
    sessions = peers.queue_sessions_of(request["leaderEpoch"])
    name = SessionName(request["brokerEpoch"], request["session"])
    return NamedSession(sessions, BrokerId(request["brokerId"]), name)

"""One member of a classic group."""

from dataclasses import dataclass

from headrace.coordination.groups.messages import JoinAnswer, SyncAnswer
from headrace.ports.callbacks import Done
from headrace.ports.deadlines import Deadline


@dataclass(slots=True)
class ClassicMember:
    """What the coordinator knows of a member, and the requests of it that wait for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    is_new: bool = False
    """Joined, and not in any generation yet."""
    join_done: Done[JoinAnswer] | None = None
    sync_done: Done[SyncAnswer] | None = None
    session: Deadline | None = None

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup of it waits for the others."""
        return self.join_done is not None

    @property
    def is_alive_by_waiting(self) -> bool:
        """Whether its session cannot end because it waits for us.

        A member that has never been in a generation may well be gone: its client has no session
        to lose yet.
        """
        if self.is_new:
            return False
        return self.join_done is not None or self.sync_done is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return its subscription under `protocol`; empty where it does not know that protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str | None:
        """Return the first of its protocols that is a candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        return None

    def end_session_watch(self) -> None:
        """End the watch: its session no longer matters."""
        if self.session is not None:
            self.session.cancel()

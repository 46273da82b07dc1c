"""A member of a classic group."""

from dataclasses import dataclass

from headrace.coordination.groups.messages import JoinAnswer, SyncAnswer
from headrace.ports.callbacks import Done
from headrace.ports.deadlines import Deadline


@dataclass(slots=True)
class ClassicMember:
    """A classic group member: its properties, its session timer and its waiting requests."""

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
    """Whether the member has not been in any generation yet."""
    join_done: Done[JoinAnswer] | None = None
    sync_done: Done[SyncAnswer] | None = None
    session: Deadline | None = None

    @property
    def awaits_join(self) -> bool:
        """Whether the member's JoinGroup is waiting for the next generation."""
        return self.join_done is not None

    @property
    def is_alive_by_waiting(self) -> bool:
        """Whether a JoinGroup or SyncGroup of the member waits, so its session cannot expire.

        A new member is excluded: its client has no session yet and may have stopped.
        """
        if self.is_new:
            return False
        return self.join_done is not None or self.sync_done is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's subscription under `protocol`; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str | None:
        """Return the first of the member's protocols that is in `candidates`."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        return None

    def end_session_watch(self) -> None:
        """Cancel the member's session timer."""
        if self.session is not None:
            self.session.cancel()

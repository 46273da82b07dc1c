"""What every stock client is asked to do, in one vocabulary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

NEWER = (
    "newer: group rebalances",
    "newer: topics by expression",
    "newer: static member returns",
    "newer: commit and resume",
    "newer: from classic, live",
    "newer: back to classic, live",
)
"""Scenarios of KIP-848's group protocol, which not every library has."""

QUICK: dict[str, Any] = {
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 300,
    "group_consumer_min_session_timeout_ms": 6_000,
    "group_consumer_session_timeout_ms": 6_000,
    "group_consumer_assignment_interval_ms": 100,
    "group_share_assignment_interval_ms": 0,
    "group_min_session_timeout_ms": 2_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""Settings of a broker with which groups and transactions do not wait longer than they must."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, order=True)
class Rec:
    """A record as a client sees it. `partition`, `offset` and `timestamp` are filled by reading."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = field(default=0, compare=False)
    offset: int = field(default=-1, compare=False)


class Member(Protocol):
    """A consumer in a group."""

    def poll(self, seconds: float) -> list[Rec]: ...

    def assigned(self) -> set[int]:
        """Partitions of the one topic subscribed to."""

    def commit(self) -> None:
        """Commit, synchronously, what was polled."""

    def close(self) -> None:
        """Leave the group."""


class Transactions(Protocol):
    """A transactional producer, initialized: whoever had its id before is fenced."""

    def begin(self) -> None: ...

    def send(self, topic: str, records: Sequence[Rec], partition: int = 0) -> None:
        """Write, and wait until all is acknowledged."""

    def send_offsets(self, member: Member, topic: str, offsets: dict[int, int]) -> None:
        """Commit where `member` goes on, by partition, with the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    """A stock client library."""

    name: str

    def produce(
        self,
        topic: str,
        records: Sequence[Rec],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        """Produce in order and return the offsets acknowledged."""

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        committed: bool = False,
    ) -> list[Rec]:
        """Read `count` records of one partition from `offset`; read_committed where asked."""

    def offset_for_time(self, topic: str, timestamp: int) -> int | None: ...

    def watermarks(self, topic: str) -> tuple[int, int]: ...

    def member(
        self,
        topic: str,
        group: str,
        *,
        instance: str | None = None,
        cooperative: bool = False,
        session_ms: int = 10_000,
        newer: bool = False,
    ) -> Member:
        """`newer`: by KIP-848's protocol; then `topic` may be an expression that begins with ^."""

    def transactions(self, transactional_id: str, timeout_ms: int = 60_000) -> Transactions: ...

    def create_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def topics(self) -> set[str]: ...

    def partitions(self, topic: str) -> int: ...

    def topic_config(self, topic: str) -> dict[str, str]: ...

    def set_topic_config(self, topic: str, name: str, value: str) -> None: ...

    def groups(self) -> set[str]: ...

    def group_members(self, group: str) -> int: ...

    def committed(self, group: str, topic: str) -> dict[int, int]: ...

    def delete_group(self, group: str) -> None: ...

    def unsupported(self) -> Iterable[str]:
        """Scenario names this library cannot do, whatever the broker."""

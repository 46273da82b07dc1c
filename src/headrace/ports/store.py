"""The metadata store with ZooKeeper's model: paths, versions, ephemeral nodes, watches, multi.

A single broker's store is embedded (`posix/store`, SQLite); a cluster's is a ZooKeeper ensemble
(`posix/zookeeper`, kazoo). Paths are Kafka's znodes, such as `/brokers/topics/NAME`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError

ANY_VERSION = -1


class StoreError(HeadraceError):
    """Base class of the store's errors."""


class NoNode(StoreError):
    """The path or its parent does not exist."""


class NodeExists(StoreError):
    """The path already exists."""


class NotEmpty(StoreError):
    """The path has children."""


class BadVersion(StoreError):
    """The node was changed since the given version."""


class SessionLost(StoreError):
    """The store is unreachable or has ended the session with its ephemeral nodes."""


class Node(NamedTuple):
    """A node's content and versions."""

    value: bytes
    version: int
    """Number of writes to this node since its creation."""
    created: int
    """Transaction id of the creation (czxid), ascending in the whole store; a broker's epoch."""
    owner: int
    """Session id of an ephemeral node; 0 for a persistent one."""


class Create(NamedTuple):
    path: str
    value: bytes
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    path: str
    value: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """The deletion of a node in a `multi`.

    A dataclass, as a named tuple would equal a `Check` with the same fields.
    """

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    path: str
    version: int


Operation = Create | Set | Delete | Check


class SessionEvents:
    """Callbacks for events of a store session, passed to the store when it is opened."""

    def __init__(self) -> None:
        """Make callbacks that do nothing. Set each at most once; called on the deciding thread."""
        self.lost: Callable[[], None] = _nothing
        """The store is unreachable: the session may have expired or may expire."""
        self.expired: Callable[[], None] = _nothing
        """The session has expired with its ephemeral nodes; the store has begun a new one."""
        self.reconnected: Callable[[], None] = _nothing
        """The store is reachable again in the same session. Watches may have missed changes."""
        self.answered: Callable[[float], None] = _not_counted
        """A request was answered or abandoned, after this many seconds."""


def _nothing() -> None:
    """Do nothing: the default of session callbacks."""


def _not_counted(seconds: float) -> None:
    """Do nothing: the default of `answered`."""


class Store(Protocol):
    """The store that controller and brokers share their state in. For the deciding thread."""

    shared: bool
    """Whether other brokers use the store too."""

    @property
    def session(self) -> int:
        """The session id, the owner of this broker's ephemeral nodes."""

    @property
    def session_seconds(self) -> float:
        """The agreed session timeout in seconds; infinity for an embedded store."""

    def last_heard(self) -> float:
        """Return the sending time of the newest request that the ensemble has answered.

        In seconds of the boot-time clock; an answer of one server alone does not count, nor one in
        another session than `session` names. The session lasts at least `session_seconds` longer.
        Infinity for an embedded store.
        """

    async def get(self, path: str) -> Node:
        """Return the node at `path`; NoNode if it does not exist."""

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes at `paths`, None for missing ones, in few round trips."""

    async def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's children; NoNode if it does not exist."""

    async def create(
        self,
        path: str,
        value: bytes,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create a node; return its path (a sequential one ends in ten digits).

        Raises NodeExists, or NoNode if a parent is missing and `parents` is False.
        """

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Node:
        """Write a node's content if its version is `version`. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children. Raises NoNode, BadVersion, NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        """Perform all operations or none; raise the error of the first that fails.

        Results: Set → Node, Create → path, Delete and Check → None.
        """

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed(path)` after each change of the node or its children.

        Returns a function that cancels it. Close changes may be reported once.
        """

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes."""

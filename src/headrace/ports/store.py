"""The metadata store, with ZooKeeper's model: paths, versions, ephemeral nodes, watches, multi.

One node's store is embedded (`posix/store`), a cluster's is a ZooKeeper ensemble
(`posix/zookeeper`, kazoo). Paths are Kafka's znodes: `/brokers/topics/NAME` and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.model.errors import HeadraceError

ANY_VERSION = -1


class StoreError(HeadraceError):
    """Base of what a store refuses."""


class NoNode(StoreError):
    """The path does not exist, or its parent does not."""


class NodeExists(StoreError):
    """The path exists already."""


class NotEmpty(StoreError):
    """The path has children."""


class BadVersion(StoreError):
    """Somebody changed the node since the version given."""


class SessionLost(StoreError):
    """The store cannot be reached, or has ended our session: ephemeral nodes are gone."""


class Node(NamedTuple):
    """A node's content and its versions."""

    value: bytes
    version: int
    """Counts the writes to this node, from 0."""
    created: int
    """Transaction id of the creation (czxid): grows through the whole store. A broker's epoch."""
    owner: int
    """Session of an ephemeral node, 0 for a persistent one."""


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
    """A dataclass: a named tuple would equal a `Check` of the same."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    path: str
    version: int


Operation = Create | Set | Delete | Check


class SessionEvents:
    """Who hears of the session's fate. Handed to a store when it is opened."""

    def __init__(self) -> None:
        """Nobody does yet. Set each slot once; called on the deciding thread."""
        self.lost: Callable[[], None] = _nothing
        """The store is not heard of: the session may have ended, or will."""
        self.expired: Callable[[], None] = _nothing
        """The session is over, its ephemeral nodes are gone; the store has begun another."""
        self.reconnected: Callable[[], None] = _nothing
        """The store is heard of again, the session lives on. Watches may have missed changes."""
        self.answered: Callable[[float], None] = _not_counted
        """Something that was asked is answered, or was given up; told how many seconds it took."""


def _nothing() -> None:
    """Do nothing: nobody listens."""


def _not_counted(seconds: float) -> None:
    """Do nothing: nobody counts."""


class Store(Protocol):
    """What controller and brokers agree through. All calls come from the deciding thread."""

    shared: bool
    """Whether other brokers use the store too; if not, all that is in it is ours."""

    @property
    def session(self) -> int:
        """The owner that our ephemeral nodes carry."""

    @property
    def session_seconds(self) -> float:
        """How long the session lives when it is not heard of, as agreed; infinity: for ever."""

    def last_heard(self) -> float:
        """Return when the last thing was sent that the store answered, not one server of it alone.

        In seconds of the boot-time clock. The session lives until `session_seconds` after it, or
        longer. Infinity where there is nobody who could end the session.
        """

    async def get(self, path: str) -> Node:
        """Return the node, or NoNode."""

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes at `paths`, None where there is none.

        They are read in as few round trips as can be.
        """

    async def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted; NoNode."""

    async def create(
        self,
        path: str,
        value: bytes,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create and return the path (a sequential one ends in ten digits); NodeExists, NoNode."""

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Node:
        """Write if the version is still `version`; NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children; NoNode, BadVersion, NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        """Do all operations or none; raises the error of the first that cannot be done.

        Results: Set → Node, Create → path, Delete and Check → None.
        """

    def watch(self, path: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed(path)` after each change of the node or of its children, until cancelled.

        Returns the cancelling function. Changes close together may be told once.
        """

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""

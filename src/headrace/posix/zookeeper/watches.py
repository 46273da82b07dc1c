"""Watches that last, made of ZooKeeper's, each of which tells of one change.

When ZooKeeper tells of a change, the watch is set again first and then the watchers are told. One
session's questions are answered in the order asked: what a watcher reads when it is told was read
after the watch was set, so it has seen what happened in between.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kazoo.protocol.states import EventType

Changed = Callable[[str], None]


class Asking(Protocol):
    """How watches are set in ZooKeeper; kazoo's client."""

    def exists_async(self, path: str, watch: Callable[[Any], None]) -> object:
        """Have `watch` told once of the node's next change."""

    def get_children_async(self, path: str, watch: Callable[[Any], None]) -> object:
        """Have `watch` told once of the next child that comes or goes, if the node is there."""


class Watched:
    """One path and who watches it."""

    def __init__(self, path: str, said: Callable[["Watched", Any], None]) -> None:
        """`said` is told, on kazoo's thread, what ZooKeeper says."""
        self.path = path
        self.watchers: list[Changed] = []
        self.on_node = partial(said, self)
        """What kazoo is given: the same each time, so that it calls it once for a change."""
        self.on_children = partial(_unless_gone, self.on_node)


def _unless_gone(said: Callable[[Any], None], event: Any) -> None:
    """Leave the node's deletion to the watch on the node, or to what is read after it is set."""
    if event.type != EventType.DELETED:
        said(event)


class Watches:
    """All watches of one store. Used on the deciding thread; `hand_over` calls something there."""

    def __init__(self, client: Asking, hand_over: Callable[[Callable[[], None]], None]) -> None:
        """None yet."""
        self._client = client
        self._hand_over = hand_over
        self._watched: dict[str, Watched] = {}

    def add(self, path: str, changed: Changed) -> Callable[[], None]:
        """Tell `changed` of changes of the path; returns the cancelling function.

        Without a connection it waits for `set_again`.
        """
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = Watched(path, self._said)
            self._set_on_node(watched)
            self._set_on_children(watched)
        watched.watchers.append(changed)
        return partial(self._cancel, watched, changed)

    def set_again(self) -> None:
        """Set all watches anew after the connection was lost, and have all watchers look."""
        watched_now = tuple(self._watched.values())
        for watched in watched_now:
            self._set_on_node(watched)
            self._set_on_children(watched)
        for watched in watched_now:
            self._tell(watched)

    def _cancel(self, watched: Watched, changed: Changed) -> None:
        if changed in watched.watchers:
            watched.watchers.remove(changed)
        if not watched.watchers and self._watched.get(watched.path) is watched:
            del self._watched[watched.path]

    def _set_on_node(self, watched: Watched) -> None:
        self._client.exists_async(watched.path, watch=watched.on_node)

    def _set_on_children(self, watched: Watched) -> None:
        self._client.get_children_async(watched.path, watch=watched.on_children)

    def _said(self, watched: Watched, event: Any) -> None:
        """Take ZooKeeper's word, on kazoo's thread."""
        if event.type != EventType.NONE:  # which says that the connection is lost
            self._hand_over(partial(self._changed, watched, event.type))

    def _changed(self, watched: Watched, kind: str) -> None:
        if self._watched.get(watched.path) is not watched:
            return  # cancelled
        if kind == EventType.CHILD:
            self._set_on_children(watched)
        else:
            self._set_on_node(watched)
        if kind == EventType.CREATED:
            self._set_on_children(watched)
        self._tell(watched)

    def _tell(self, watched: Watched) -> None:
        for changed in tuple(watched.watchers):
            if changed in watched.watchers:
                changed(watched.path)

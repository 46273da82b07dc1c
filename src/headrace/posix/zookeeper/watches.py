"""`Watches`: permanent watches on top of ZooKeeper's, each of which reports one change only.

On a change the ZooKeeper watch is set again, then the watchers are called. A session's requests are
answered in order, so what a watcher reads was read after the watch was set: no change is missed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kazoo.protocol.states import EventType

Changed = Callable[[str], None]


class Asking(Protocol):
    """The functions of kazoo's client that set watches."""

    def exists_async(self, path: str, watch: Callable[[Any], None]) -> object:
        """Call `watch` once, at the node's next change."""

    def get_children_async(self, path: str, watch: Callable[[Any], None]) -> object:
        """Call `watch` once, when a child is next added or removed, if the node exists."""


class Watched:
    """A path with its watchers."""

    def __init__(self, path: str, said: Callable[["Watched", Any], None]) -> None:
        """Make a watched path; `said` gets ZooKeeper's events, on kazoo's thread."""
        self.path = path
        self.watchers: list[Changed] = []
        self.on_node = partial(said, self)
        """The callback for kazoo: always the same object, so that kazoo calls it once per
        change."""
        self.on_children = partial(_unless_gone, self.on_node)


def _unless_gone(said: Callable[[Any], None], event: Any) -> None:
    """Ignore the node's deletion, which the watch on the node reports."""
    if event.type != EventType.DELETED:
        said(event)


class Watches:
    """All watches of one store. For the deciding thread; `hand_over` runs a function there."""

    def __init__(self, client: Asking, hand_over: Callable[[Callable[[], None]], None]) -> None:
        """Make a store's watches, none at first."""
        self._client = client
        self._hand_over = hand_over
        self._watched: dict[str, Watched] = {}

    def add(self, path: str, changed: Changed) -> Callable[[], None]:
        """Call `changed` at changes of the path; return the function that cancels it.

        Without a connection the watch is set by `set_again`.
        """
        watched = self._watched.get(path)
        if watched is None:
            watched = self._watched[path] = Watched(path, self._said)
            self._set_on_node(watched)
            self._set_on_children(watched)
        watched.watchers.append(changed)
        return partial(self._cancel, watched, changed)

    def set_again(self) -> None:
        """Set all watches again after a lost connection, and call all watchers."""
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
        """Pass an event of ZooKeeper to the deciding thread. Called on kazoo's thread."""
        if event.type != EventType.NONE:  # NONE: the connection is lost
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

"""`RemoteUse`: whether a home's channels use a queue of another broker."""

from collections.abc import Collection
from typing import Protocol

from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.home.remote_consumers import RemoteConsumers
from headrace.remote_queues.home.remote_publishes import RemotePublishes
from headrace.remote_queues.messages import Leave


class _Waiting(Protocol):
    @property
    def are_there(self) -> bool:
        """Whether something waits for the queue's leader, or for a channel."""


class RemoteUse:
    """The use of one queue, over all sessions."""

    __slots__ = ("_consumers", "_link", "_publishes", "_waiting")

    def __init__(
        self,
        link: LeaderLink,
        publishes: RemotePublishes,
        consumers: RemoteConsumers,
        waiting: Collection[_Waiting],
    ) -> None:
        """`waiting`: the queue's settlements, gets and questions."""
        self._link = link
        self._publishes = publishes
        self._consumers = consumers
        self._waiting = waiting

    @property
    def needs_leader(self) -> bool:
        """Whether publishes wait for the leader, or the queue has consumers."""
        return self._publishes.unconfirmed > 0 or self._consumers.are_there

    @property
    def was_opened(self) -> bool:
        """Whether the broker of the last session has led the queue."""
        return self._publishes.was_opened

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost if the queue is closed and opened again for its next use."""
        return not self.needs_leader and not any(each.are_there for each in self._waiting)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers that increase with each publish, and with each other call that is answered."""
        return self._publishes.last, self._link.keys

    def end(self) -> None:
        """Have the leader forget the home's use of the queue; close the queue then."""
        if self._link.session is not None:
            self._link.session.call(Leave(self._link.queue))

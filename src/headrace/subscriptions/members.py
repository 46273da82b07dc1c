"""Members of consumer groups, as clients report them by heartbeat.

A client shares the queues of a topic with the other members itself: it asks for the members, sorts
them, and takes its part. So all members must see one list, and each hears of every change.

A client is a member of a group while it sends heartbeats on an open connection: it leaves when it
says so, when its connection closes, or `HEARTBEAT_SECONDS_MAX` after its last heartbeat. A client
that reconnects replaces itself: its old connection's end removes nobody.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

_logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS_MAX = 120.0
"""Seconds without a heartbeat after which a member has left, as in RocketMQ."""

_SHOWN_CHARACTERS_MAX = 500
"""Characters of a member's subscriptions in the log."""


class MemberConnection(Protocol):
    """A client's connection, as the members know it."""

    def members_changed(self, group: str) -> None:
        """Tell the client that the members of its group have changed."""


C = TypeVar("C", bound=MemberConnection)


class TopicSubscription(NamedTuple):
    """A topic that a group consumes, and its filter."""

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0
    """Grows with each change of the subscription: the client's clock when it was made."""


class GroupSubscription(NamedTuple):
    """A group as one member sees it."""

    group: str
    topics: tuple[TopicSubscription, ...] = ()
    broadcasting: bool = False
    """Whether each member consumes all queues, and keeps offsets itself."""
    consume_from: str = ""
    """Where the client begins without an offset."""
    consume_type: str = ""
    """How the client consumes, in its own words: pushed to it, or by pulls."""

    def asked(self) -> frozenset[tuple[str, str, str]]:
        """Return the topics with their filters, without the versions."""
        return frozenset(topic[:3] for topic in self.topics)

    def __str__(self) -> str:
        asked = sorted(f"{topic!r} {kind} {text!r}" for topic, text, kind in self.asked())
        return (", ".join(asked) or "nothing")[:_SHOWN_CHARACTERS_MAX]


class HeartbeatMember(Generic[C]):
    """A member of one group."""

    __slots__ = ("client_id", "connection", "expires_at", "subscription")

    def __init__(
        self,
        client_id: str,
        connection: C,
        subscription: GroupSubscription,
        expires_at: float,
    ) -> None:
        self.client_id = client_id
        self.connection = connection
        self.subscription = subscription
        self.expires_at = expires_at


class _Group(Generic[C]):
    """The members of one group, by client id, and its newest subscriptions, by topic."""

    __slots__ = ("members", "since", "topics")

    def __init__(self) -> None:
        self.members: dict[str, HeartbeatMember[C]] = {}
        self.topics: dict[str, TopicSubscription] = {}
        self.since: dict[str, float] = {}
        """When a member first reported each topic."""

    def subscribe(self, topics: Iterable[TopicSubscription], now: float) -> bool:
        """Note newer subscriptions; return whether one is new or differs."""
        changed = False
        for topic in topics:
            self.since.setdefault(topic.topic, now)
            known = self.topics.get(topic.topic)
            if known is None or topic.version > known.version:
                changed = changed or known is None or known[:3] != topic[:3]
                self.topics[topic.topic] = topic
        return changed

    def forget_topics(self) -> bool:
        """Forget topics to which no member subscribes any more; return whether there were some."""
        wanted = {
            topic.topic for member in self.members.values() for topic in member.subscription.topics
        }
        gone = self.topics.keys() - wanted
        for topic in gone:
            del self.topics[topic], self.since[topic]
        return bool(gone)


class GroupMembers(Generic[C]):
    """The members of all groups on one broker. Times are monotonic seconds that callers pass."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group[C]] = {}
        self._groups_of: dict[C, dict[str, str]] = {}
        """By connection: client id by group."""

    # Heartbeats

    def heartbeat(
        self,
        connection: C,
        client_id: str,
        subscriptions: Iterable[GroupSubscription],
        now: float,
    ) -> bool:
        """Renew a client's memberships, or add them; return whether any group has changed.

        Members of a changed group hear of it, the client itself included.
        """
        any_changed = False
        for subscription in subscriptions:
            group = self._groups.get(subscription.group)
            if group is None:
                group = self._groups[subscription.group] = _Group()
            changed = self._renew(group, connection, client_id, subscription, now)
            changed = group.subscribe(subscription.topics, now) or changed
            changed = group.forget_topics() or changed
            if changed:
                any_changed = True
                self._tell(subscription.group, group)
        return any_changed

    def _renew(
        self,
        group: _Group[C],
        connection: C,
        client_id: str,
        subscription: GroupSubscription,
        now: float,
    ) -> bool:
        """Note one membership; return whether the member is new or has another connection."""
        until = now + HEARTBEAT_SECONDS_MAX
        member = group.members.get(client_id)
        if member is None or member.subscription.asked() != subscription.asked():
            _warn_if_different(group, client_id, subscription)
        self._groups_of.setdefault(connection, {})[subscription.group] = client_id
        if member is not None and member.connection is connection:
            member.subscription = subscription
            member.expires_at = until
            return False
        if member is not None:
            self._release(member.connection, subscription.group)
        group.members[client_id] = HeartbeatMember(client_id, connection, subscription, until)
        return True

    def renew(self, connection: C, now: float) -> bool:
        """Renew all memberships of a connection without changing them; return whether it has
        some."""
        groups = self._groups_of.get(connection)
        for group, client_id in (groups or {}).items():
            self._groups[group].members[client_id].expires_at = now + HEARTBEAT_SECONDS_MAX
        return bool(groups)

    # Leaving

    def leave(self, connection: C, group: str) -> None:
        """Remove a connection's client from a group, if it is a member."""
        client_id = self._groups_of.get(connection, {}).get(group)
        if client_id is not None:
            self._remove(group, client_id)

    def closed(self, connection: C) -> None:
        """Remove a closed connection's client from all its groups."""
        for group, client_id in list(self._groups_of.get(connection, {}).items()):
            self._remove(group, client_id)

    def expire(self, now: float) -> None:
        """Remove the members whose last heartbeat is too old."""
        late = [
            (name, member.client_id)
            for name, group in self._groups.items()
            for member in group.members.values()
            if member.expires_at <= now
        ]
        for group_name, client_id in late:
            self._remove(group_name, client_id)

    def _remove(self, name: str, client_id: str) -> None:
        group = self._groups[name]
        member = group.members.pop(client_id)
        self._release(member.connection, name)
        if not group.members:
            del self._groups[name]
            return
        group.forget_topics()
        self._tell(name, group)

    def _release(self, connection: C, group: str) -> None:
        groups = self._groups_of[connection]
        del groups[group]
        if not groups:
            del self._groups_of[connection]

    def _tell(self, name: str, group: _Group[C]) -> None:
        for member in list(group.members.values()):
            member.connection.members_changed(name)

    # Questions

    def client_ids(self, group: str) -> list[str]:
        """Return the ids of a group's members, sorted; empty: it has none."""
        found = self._groups.get(group)
        return [] if found is None else sorted(found.members)

    def members(self, group: str) -> Iterator[HeartbeatMember[C]]:
        """Yield a group's members."""
        found = self._groups.get(group)
        if found is not None:
            yield from found.members.values()

    def subscription(self, group: str, topic: str) -> TopicSubscription | None:
        """Return a group's newest subscription of a topic, None if no member has one."""
        found = self._groups.get(group)
        return None if found is None else found.topics.get(topic)

    def subscribed_since(self, group: str, topic: str) -> float | None:
        """Return when a member first reported a topic, None if no member has it."""
        found = self._groups.get(group)
        return None if found is None else found.since.get(topic)

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member of any group subscribes to a topic."""
        return any(topic in group.topics for group in self._groups.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def topics(self, group: str) -> Mapping[str, TopicSubscription]:
        """Return a group's newest subscriptions by topic; read-only."""
        found = self._groups.get(group)
        return {} if found is None else found.topics

    def __len__(self) -> int:
        return len(self._groups)


def _warn_if_different(group: _Group[C], client_id: str, subscription: GroupSubscription) -> None:
    """Log a warning that names a client and another member, if they do not subscribe alike."""
    asked = subscription.asked()
    for other in group.members.values():
        if other.client_id != client_id and other.subscription.asked() != asked:
            _logger.warning(
                "group %r: member %r subscribes to %s, and member %r to %s. Each queue has one"
                " consumer, so messages that only the other wants are skipped: give all members"
                " the same subscriptions",
                subscription.group, client_id, subscription, other.client_id, other.subscription,
            )  # fmt: skip
            return

"""Health of each broker as it reports itself: reachable, metadata store connected, controller or
not.

Metadata responses alone do not show this: a broker that has lost its session with the metadata
store still returns the brokers, leaders and controller that it knew last.
"""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.admin import replicas
from headrace.client.admin.replicas import Reassigning
from headrace.client.admin.topics import topic_values
from headrace.client.calls.metadata import Metadata, metadata_call
from headrace.client.transport.port import ClientError
from headrace.model.errors import STORE_UNANSWERED, ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.client import Client

ANSWER_SECONDS_MAX = 5.0
"""How many seconds each broker has to answer: a hanging broker must not hide the others' state."""
_MIN_IN_SYNC = "min.insync.replicas"


class Standing(NamedTuple):
    """A broker's answer about its own state, or why it gave none."""

    broker: int
    failure: str = ""
    """Why the broker did not answer; empty if it did."""
    refusal: str = ""
    """The broker's own reason for not being the controller; empty if it gave none."""
    moves: Sequence[Reassigning] | None = None
    """The running reassignments, which only the controller returns; None: this broker is not the
    controller, or the user is not authorised to see them."""

    @property
    def has_no_store(self) -> bool:
        """Whether the broker reports that its session with the metadata store is lost or in
        doubt."""
        return self.refusal.startswith(STORE_UNANSWERED)


class Seen(NamedTuple):
    """The cluster state that results from all brokers' answers together."""

    known: Metadata
    standings: Sequence[Standing] = ()
    moves: Mapping[TopicPartition, Reassigning] = {}
    in_sync_needed: Mapping[str, int] = {}
    """`min.insync.replicas` by topic, for topics with a replica out of sync."""

    @property
    def unanswered(self) -> list[Standing]:
        """The registered brokers that did not answer."""
        return [standing for standing in self.standings if standing.failure]

    @property
    def without_store(self) -> list[Standing]:
        """The brokers that report no session with the metadata store."""
        return [standing for standing in self.standings if standing.has_no_store]


async def look(client: "Client") -> Seen:
    """Ask all brokers for their state and return it combined; ClientError if none answers.

    Parts that a broker refuses or answers too slowly are left out.
    """
    known = await client.metadata()
    standings = [await _standing(client, broker) for broker in _reachable(client, known)]
    controllers = [standing for standing in standings if standing.moves is not None]
    if controllers:
        known = await _as_controller_sees(client, known, standings, controllers)
    elif any(standing.refusal for standing in standings if standing.broker == known.controller_id):
        known = known._replace(controller_id=-1)
    moves = {move.partition: move for found in controllers for move in found.moves or ()}
    return Seen(known, standings, moves, await _in_sync_needed(client, known))


def _reachable(client: "Client", known: Metadata) -> list[int]:
    """Return the ids of the brokers to ask; through a Unix socket only the broker behind it."""
    local = client.bootstrap[0].local_path is not None
    return [
        broker
        for broker, address in sorted(known.brokers.items())
        if not local or address.local_path is not None
    ]


async def _standing(client: "Client", broker: int) -> Standing:
    with _patience(client, ANSWER_SECONDS_MAX):
        try:
            return Standing(broker, moves=await replicas.reassignments_on(client, broker))
        except ClientError as error:
            return Standing(broker, failure=str(error) or type(error).__name__)
        except ApiError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                return Standing(broker, refusal=error.message or error.code.name)
            return Standing(broker)


async def _as_controller_sees(
    client: "Client",
    known: Metadata,
    standings: Sequence[Standing],
    controllers: Sequence[Standing],
) -> Metadata:
    """Return the controller's metadata if brokers may disagree, else `known`."""
    ids = [standing.broker for standing in controllers]
    agreed = known.controller_id in ids
    if agreed and not any(standing.failure or standing.has_no_store for standing in standings):
        return known
    controller = known.controller_id if agreed else ids[0]
    try:
        with _patience(client, ANSWER_SECONDS_MAX):
            link = await client.broker(controller)
            response = await client.ask(link, metadata_call(None, create=False))
            known = Metadata.of(response)
    except (ClientError, ApiError):
        pass  # The controller stopped since: the other brokers' metadata is used.
    return known if agreed else known._replace(controller_id=controller)


async def _in_sync_needed(client: "Client", known: Metadata) -> dict[str, int]:
    """Return `min.insync.replicas` by topic, of topics that have a replica out of sync.

    Only those can have too few replicas in sync: a broker never requires more in-sync replicas than
    a partition has.
    """
    topics = [
        name
        for name, topic in known.topics.items()
        if any(len(found.isr) < len(found.replicas) for found in topic.partitions)
    ]
    if not topics:
        return {}
    try:
        values = await topic_values(client, topics, _MIN_IN_SYNC)
    except (ClientError, ApiError):
        return {}
    return {name: int(value) for name, value in values.items()}


@contextmanager
def _patience(client: "Client", seconds: float) -> "Iterator[None]":
    """Lower the client's request timeout to at most `seconds` while the block runs."""
    before = client.request_timeout_seconds
    client.request_timeout_seconds = min(before, seconds)
    try:
        yield
    finally:
        client.request_timeout_seconds = before


async def replica_ends(
    client: "Client", known: Metadata, topics: Sequence[str]
) -> dict[int, dict[TopicPartition, int]]:
    """Return the log end offset of each replica, by broker; brokers that do not answer are left
    out.

    Leaders are asked first, so that a follower in sync has reached the leader's end by the time it
    is asked.
    """
    leading: dict[int, list[TopicPartition]] = {}
    following: dict[int, list[TopicPartition]] = {}
    for name in topics:
        for found in known.topics[name].partitions:
            for broker in found.replicas:
                asked = leading if broker == found.leader else following
                asked.setdefault(broker, []).append(TopicPartition(name, found.partition))
    ends: dict[int, dict[TopicPartition, int]] = {}
    reachable = _reachable(client, known)
    for broker, partitions in (*leading.items(), *following.items()):
        if broker in reachable:
            with _patience(client, ANSWER_SECONDS_MAX), suppress(ClientError, ApiError):
                found_there = await replicas.ends_on(client, broker, partitions)
                ends.setdefault(broker, {}).update(found_there)
    return ends

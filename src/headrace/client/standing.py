"""How each broker of a cluster answers: whether it does, has its metadata store, is the controller.

Metadata alone does not show it: a broker that has lost its session with the store goes on to report
the brokers, leaders and controller that it heard of last.
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
"""How long each broker has to answer: one that stands still must not hide the others."""
_MIN_IN_SYNC = "min.insync.replicas"


class Standing(NamedTuple):
    """A broker's answer about its own state."""

    broker: int
    failure: str = ""
    """Why it did not answer; empty: it did."""
    refusal: str = ""
    """Why it is not the controller, in its own words."""
    moves: Sequence[Reassigning] | None = None
    """The running reassignments: the controller answers with them. None: it is not the controller,
    or the user is not authorised to see them."""

    @property
    def has_no_store(self) -> bool:
        """Whether its session with the metadata store is in doubt or over."""
        return self.refusal.startswith(STORE_UNANSWERED)


class Seen(NamedTuple):
    """A cluster as its brokers together report it."""

    known: Metadata
    standings: Sequence[Standing] = ()
    moves: Mapping[TopicPartition, Reassigning] = {}
    in_sync_needed: Mapping[str, int] = {}
    """`min.insync.replicas` of topics that have a replica out of sync."""

    @property
    def unanswered(self) -> list[Standing]:
        """Brokers that are registered and did not answer."""
        return [standing for standing in self.standings if standing.failure]

    @property
    def without_store(self) -> list[Standing]:
        """Brokers that the metadata store does not answer."""
        return [standing for standing in self.standings if standing.has_no_store]


async def look(client: "Client") -> Seen:
    """Ask all brokers; ClientError where none answers. Slow or refused parts are left out."""
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
    """Return the brokers to ask: through a Unix socket only the one behind it."""
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
    """Return the controller's metadata where brokers may disagree, else `known`."""
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
        pass  # it has gone since: the others' metadata serve
    return known if agreed else known._replace(controller_id=controller)


async def _in_sync_needed(client: "Client", known: Metadata) -> dict[str, int]:
    """Return `min.insync.replicas` by topic, of topics that have too few replicas in sync for it.

    Only where a replica is out of sync can there be too few: a broker never asks for
    more in-sync replicas than a partition has.
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
    """Bound the time that each request waits, in seconds."""
    before = client.request_timeout_seconds
    client.request_timeout_seconds = min(before, seconds)
    try:
        yield
    finally:
        client.request_timeout_seconds = before


async def replica_ends(
    client: "Client", known: Metadata, topics: Sequence[str]
) -> dict[int, dict[TopicPartition, int]]:
    """Return where the replicas of topics end, by broker; brokers that do not answer are left out.

    Leaders are asked first: a follower that is in sync has their ends by the time it is asked.
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

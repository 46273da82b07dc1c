"""`Source`: fetches the partitions followed here from one leading broker.

It has one connection, one fetch session and one request in flight. Fetched batches count as fetched
once they are flushed. The next request waits for that up to `FLUSH_SECONDS_MAX` and then leaves out
partitions that are not flushed, so that a slow directory delays no other.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.replica.follower import Follower
from headrace.client.calls.call import HotCall
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import Address, CannotConnect, ClientError
from headrace.model.errors import ApiError, Malformed
from headrace.model.nouns import BrokerId, counted
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.replication.fetch_dependencies import FetchDependencies
from headrace.replication.fetch_responses import Arrived, FetchResponses
from headrace.replication.fetch_session import FetchSession, Key
from headrace.replication.followed_partition import FollowedPartition, rest_seconds
from headrace.replication.paused_partitions import PausedPartitions
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch, fetch_response
from headrace.wire.kafka.hot.fetch import FetchPartition, FetchRequest
from headrace.wire.kafka.hot.fetch_response import FetchResponse

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

_logger = logging.getLogger(__name__)

VERSIONS = (15, 18)
"""Fetch versions; from 15 on a follower sends its broker epoch (KIP-903)."""
FLUSH_SECONDS_MAX = 0.01
"""Seconds that a request waits for flushes, which make new fetch offsets known."""
PAUSED_WAIT_MS = 20
"""Milliseconds that the leader may wait for data while a partition is left out of the request."""


FULL_SHARE = 0.5
"""Share of the requested bytes from which on a response counts as full: the leader has more data.
Less than 1, as batches are sent whole."""

Spread = Callable[["Source", Sequence[FollowedPartition], Sequence[FollowedPartition]], None]
"""Called with the partitions of a response that are catching up, and with the others."""


class Source:
    """The fetcher of one leading broker. On the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        dependencies: FetchDependencies,
        leader: BrokerId,
        left: Callable[[Partition], None],
        spread: "Spread",
    ) -> None:
        """Create a fetcher without partitions.

        `left` gets each partition whose truncation is complete.
        """
        self.leader = leader
        self.is_aside = False
        """Whether this fetcher has only partitions that are catching up."""
        self.members: dict[Key, FollowedPartition] = {}
        self._broker = broker
        self._dependencies = dependencies
        self._session = FetchSession()
        client = dependencies.clients.make(
            f"broker-{broker.broker_id}-follower",
            request_timeout_seconds=broker.config.replica_socket_timeout_ms / 1000,
        )
        self._peer = Peer(client, self._locate)
        self._responses = FetchResponses(broker, dependencies, leader, self._rest, left)
        self._spread = spread
        self._dirty: dict[Key, None] = {}
        """Partitions whose entry in the fetch session may have changed."""
        self._missed: dict[Key, None] = {}
        """Partitions whose response was dropped: they are removed from the session and added again,
        as the leader would otherwise not repeat its high watermark."""
        self._ready: dict[Key, None] = {}
        self._in_flush: dict[Key, None] = {}
        self._patience: Timer | None = None
        self._due: Done[BaseException | None] | None = None
        self._resting: dict[Key, float] = {}
        """Monotonic time in seconds until which a partition is not fetched, after an error."""
        self._rest_timer: Timer | None = None
        self._paused = PausedPartitions(broker, self._ready, self.members, self._note, self._go_on)
        self._failures = 0
        self._closed = False

    # --- what is followed -----------------------------------------------------------------------

    def follows(self, partition: Partition, follower: Follower) -> bool:
        """Return whether the partition is fetched for that follower role."""
        member = self.members.get(_key(partition))
        return member is not None and member.follower is follower

    @property
    def failing(self) -> bool:
        """Whether the last request to the leader failed."""
        return self._failures > 0

    def add(self, member: FollowedPartition) -> None:
        """Begin to fetch a partition."""
        self.members[member.key] = member
        self.changed(member.key)

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        key = _key(partition)
        member = self.members.pop(key, None)
        if member is not None:
            member.end()
            self._resting.pop(key, None)
            self._paused.forget(key)
            self.changed(key)

    def changed(self, key: Key) -> None:
        """Update a partition's state, and send the next request if it is due."""
        self._note(key)
        if self._due is not None:
            self._go_on()

    def _note(self, key: Key) -> None:
        self._dirty[key] = None
        member = self.members.get(key)
        _set(self._ready, key, is_in=member is not None and member.ready)
        _set(self._in_flush, key, is_in=member is not None and member.in_flush)

    def close(self) -> None:
        """Close the connection and cancel all timers."""
        self._closed = True
        self._peer.close()
        self._paused.close()
        for timer in (self._patience, self._rest_timer):
            if timer is not None:
                timer.cancel()

    # --- talking --------------------------------------------------------------------------------

    async def converse(self) -> None:
        """Send fetch requests and handle responses until cancelled.

        Errors are logged and retried.
        """
        while not self._closed:
            await called_back(self._when_due)
            try:
                await self._exchange()
                self._failures = 0
            except (ClientError, ApiError, Malformed) as error:
                self._session.begin_anew()
                if self._failures == 0 and not self._closed:
                    _logger.warning(
                        "cannot fetch from broker %d, the leader of %s followed here: %s; retrying",
                        self.leader, counted(len(self.members), "partition"), error,
                    )  # fmt: skip
                self._failures += 1
                await called_back(self._backed_off)

    def _backed_off(self, done: Done[BaseException | None]) -> None:
        """Call `done` after the backoff, which grows with the number of failures."""
        seconds = rest_seconds(self._failures, self._broker.config.replica_fetch_backoff_ms)
        self._broker.clock.call_later(seconds, lambda: done(None))

    async def _locate(self) -> Address:
        address = self._dependencies.address_of(self.leader)
        if address is None:
            raise CannotConnect(f"broker {self.leader} is not registered")
        return address

    async def _exchange(self) -> None:
        await self._peer.connect()
        request = self._request()
        call = HotCall(
            ApiKey.FETCH, fetch.encode_request, fetch_response.decode_response, request,
            versions=VERSIONS,
        )  # fmt: skip
        response = await self._peer.ask(call, wait_seconds=request.max_wait_ms / 1000)
        if self._session.answered(response.error_code, response.session_id):
            arrived = self._arrived(response)
            for key in await self._responses.take(arrived):
                self._missed[key] = None
            out_of_range = self._responses.out_of_range()
            if out_of_range:
                await self._responses.find_place(out_of_range, self._peer)
            if (self.is_aside or len(arrived) > 1) and not self._closed:
                self._tell_who_catches_up(arrived)

    def _tell_who_catches_up(self, arrived: Sequence[Arrived]) -> None:
        """Call `spread` with the partitions that lack committed records and got full responses."""
        full = self._broker.config.replica_fetch_max_bytes * FULL_SHARE
        here: tuple[list[FollowedPartition], list[FollowedPartition]] = ([], [])
        for member, fetched in arrived:
            if self.members.get(member.key) is member:
                is_full = fetched.records is not None and len(fetched.records) >= full
                here[not (is_full and not member.has_committed)].append(member)
        self._spread(self, *here)

    def _request(self) -> FetchRequest:
        config, session = self._broker.config, self._session
        keys = (*self.members,) if session.begins else (*self._missed, *self._dirty)
        # What the leader is to forget is asked for by the next request.
        self._dirty = {} if session.begins else {
            key: None for key in self._missed if key in session.told
        }  # fmt: skip
        self._missed.clear()
        asked = self._ready.keys() - self._dirty.keys()
        told = session.tell(
            (key, self._asked_of(self.members[key]) if key in asked else None)
            for key in dict.fromkeys(keys)
        )
        wait_ms = config.replica_fetch_wait_max_ms
        if len(asked) + len(self._resting) + self._paused.count < len(self.members):
            wait_ms = min(wait_ms, PAUSED_WAIT_MS)
        return FetchRequest(
            wait_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=told.topics,
            forgotten=told.forgotten,
            replica_id=self._broker.broker_id,
            replica_epoch=self._dependencies.broker_epoch(),
        )

    def _asked_of(self, member: FollowedPartition) -> FetchPartition:
        throttle = self._broker.throttles.follower
        max_bytes = self._broker.config.replica_fetch_max_bytes
        if throttle.throttles(*member.partition.topic_partition):
            max_bytes = throttle.bytes_max(max_bytes)
        return member.asked(max_bytes)

    def _arrived(self, response: FetchResponse) -> Sequence[Arrived]:
        """Return the responses of partitions whose end offset and epoch are still as requested."""
        arrived = []
        for topic in response.topics:
            for fetched in topic.partitions:
                key = (topic.topic_id, fetched.partition)
                member, asked = self.members.get(key), self._session.told.get(key)
                if member is None or asked is None:
                    continue
                log, epoch = member.partition.log, member.partition.leader_epoch
                here = (log.end_offset, epoch)
                if member.ready and (asked.fetch_offset, asked.current_leader_epoch) == here:
                    arrived.append(Arrived(member, fetched))
                else:
                    self._missed[key] = None
        return arrived

    # --- when -----------------------------------------------------------------------------------

    def _when_due(self, done: Done[BaseException | None]) -> None:
        """Call `done` once there is a partition to fetch, and flushes are done or late."""
        self._due = done
        if self._in_flush:
            self._patience = self._broker.clock.call_later(FLUSH_SECONDS_MAX, self._lose_patience)
        self._go_on()

    def _lose_patience(self) -> None:
        self._patience = None
        self._go_on()

    def _go_on(self) -> None:
        due = self._due
        if due is None or not self._ready or (self._in_flush and self._patience is not None):
            return
        if not self._paused.hold():
            return
        self._due = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        due(None)

    def _rest(self, member: FollowedPartition) -> bool:
        """Pause fetching a partition after an error; return whether to log the error."""
        seconds, first = member.failed(self._broker.config.replica_fetch_backoff_ms)
        if self.members.get(member.key) is member:
            member.resting = True
            self._resting[member.key] = self._broker.clock.monotonic() + seconds
            self.changed(member.key)
            self._arm_rest()
        return first

    def _arm_rest(self) -> None:
        if self._rest_timer is None and self._resting:
            left = min(self._resting.values()) - self._broker.clock.monotonic()
            self._rest_timer = self._broker.clock.call_later(max(left, 0.001), self._end_rests)

    def _end_rests(self) -> None:
        self._rest_timer = None
        now = self._broker.clock.monotonic()
        for key in [key for key, until in self._resting.items() if until <= now]:
            del self._resting[key]
            self.members[key].resting = False
            self.changed(key)
        self._arm_rest()


def _key(partition: Partition) -> Key:
    return (partition.topic_id, partition.topic_partition.partition)


def _set(keys: dict[Key, None], key: Key, *, is_in: bool) -> None:
    if is_in:
        keys[key] = None
    else:
        keys.pop(key, None)

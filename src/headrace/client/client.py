"""A client of one cluster: who leads what, a connection to each broker, retries.

Written against `Transport`, so it runs on a loop and on plain sockets alike. Not for several
threads.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from headrace.client.calls.call import RETRIABLE, Call
from headrace.client.calls.metadata import Metadata, metadata_call
from headrace.client.transport.handshake import VersionsCall, find_coordinator_call
from headrace.client.transport.port import (
    Address,
    CannotConnect,
    ClientError,
    ConnectionLost,
    Link,
    Refused,
    TimedOut,
    Transport,
    Unanswered,
)
from headrace.model.errors import STORE_UNANSWERED, ApiError, ErrorCode, HeadraceError
from headrace.wire.kafka.frame import parse_response

if TYPE_CHECKING:
    from headrace.client.transport.credentials import Credentials

T = TypeVar("T")

CONNECT_SECONDS = 10.0
"""How long a new connection may take, until the broker knows its versions and user."""
NEXT_ADDRESS_SECONDS = 2.0
"""How long one of several addresses is waited for before the next is tried."""
BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
_SESSION_USED = 0.85
"""How much of a session's time is used; then another connection is made."""


class Client:
    """Talks to a cluster. All methods may raise ClientError and ApiError."""

    def __init__(
        self,
        transport: Transport,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "headrace",
        request_timeout_seconds: float = 30.0,
        retry_seconds: float = 30.0,
        patient: bool = False,
        credentials: "Credentials | None" = None,
    ) -> None:
        """`credentials`: who to be on each new connection; None: the brokers do not ask.

        `patient`: also wait for brokers that cannot be connected to, as long as retries last.

        `outage_seconds` may be set for that, apart from the time for errors that brokers answer.
        """
        self.transport = transport
        self.bootstrap = list(bootstrap)
        self.client_id = client_id
        self.request_timeout_seconds = request_timeout_seconds
        self.retry_seconds = retry_seconds
        self.patient = patient
        self.credentials = credentials
        self.outage_seconds: float | None = None
        """How long to wait for brokers that are gone; None: `retry_seconds`."""
        self.on_retry: Callable[[HeadraceError], None] = lambda error: None
        """Told of each failure that is tried again."""
        self.known: Metadata | None = None
        """The metadata fetched last, of the topics asked for then."""
        self._links: dict[Address, Link] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._over: dict[Address, float] = {}
        """When the sessions end that brokers have set an end to (KIP-368)."""
        self._silent: set[Address] = set()
        """Addresses that did not answer in time when a connection was last tried."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def link_to(self, address: Address, seconds: float = CONNECT_SECONDS) -> Link:
        """Return a connection to `address`, made where there is none, its API versions known.

        `seconds`: how long each step of making it may take.
        """
        if address.local_path is not None and self.bootstrap[0].local_path is not None:
            address = self.bootstrap[0]  # the same socket, which it may see under another path
        link = self._links.get(address)
        if link is not None and not link.closed:
            if self.transport.now() < self._over.get(address, float("inf")):
                return link
            link.retire()  # the broker would end it: a new connection authenticates anew
        link = await self.connect(address, seconds)
        self._links[address] = link
        return link

    async def connect(self, address: Address, seconds: float = CONNECT_SECONDS) -> Link:
        """Make a new connection to `address`, its API versions known and this client authenticated.

        A broker that accepts connections and does not answer, a paused one, is given up after
        `seconds`, not after the time that a request may take. TimedOut.
        """
        link = await self.transport.connect(address, seconds)
        seconds = min(seconds, self.request_timeout_seconds)
        try:
            link.versions = await self.ask(link, VersionsCall(), seconds=seconds)
            if self.credentials is not None and address.local_path is None:
                await self._authenticate(link, self.credentials, seconds)
        except ConnectionLost as error:
            link.close()
            raise ConnectionLost(f"{error} (is this a Kafka listener without TLS?)") from None
        except BaseException:
            link.close()
            raise
        return link

    async def _authenticate(self, link: Link, credentials: "Credentials", seconds: float) -> None:
        from headrace.client.transport.credentials import authenticate

        lifetime_ms = await authenticate(
            credentials, lambda call: self.ask(link, call, seconds=seconds)
        )
        self._over.pop(link.address, None)
        if lifetime_ms:
            self._over[link.address] = self.transport.now() + _SESSION_USED * lifetime_ms / 1000

    async def any_link(self) -> Link:
        """Return a connection to any broker: an open one, else the first that answers.

        Each of several addresses is first given NEXT_ADDRESS_SECONDS, those last that did not
        answer before. Only where none answers, silent ones are tried once more for longer.
        """
        for link in self._links.values():
            if not link.closed:
                return await self.link_to(link.address)
        addresses = list(self.bootstrap)
        if self.known is not None:
            addresses += [
                address for address in self.known.brokers.values() if address not in addresses
            ]
        addresses.sort(key=self._silent.__contains__)
        tries = [(address, NEXT_ADDRESS_SECONDS) for address in addresses]
        if len(addresses) <= 1:
            tries = [(address, CONNECT_SECONDS) for address in addresses]
        failure: ClientError | None = None
        for address, seconds in tries:
            try:
                link = await self.link_to(address, seconds)
            except ClientError as error:
                failure = failure or error
                if isinstance(error, Unanswered | TimedOut):
                    self._silent.add(address)
                    if seconds < CONNECT_SECONDS:
                        tries.append((address, CONNECT_SECONDS))
                continue
            self._silent.discard(address)
            return link
        raise failure or CannotConnect("no broker's address is known")

    async def ask(
        self,
        link: Link,
        call: Call[T],
        *,
        wait_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> T:
        """Send `call` and wait for its answer; `wait_seconds`: the broker's own waiting time.

        `seconds`: how long to wait in place of `request_timeout_seconds`.

        ApiError UNSUPPORTED_VERSION where the two sides share no version.
        """
        version = common_version(link.versions, call)
        frame = call.encode(version, link.next_correlation_id(), self.client_id)
        reply = link.send(frame)
        timeout = self.request_timeout_seconds if seconds is None else seconds
        response = await reply.wait(timeout + wait_seconds)
        _, body = parse_response(response, call.key, version)
        return call.decode(version, response[body:])

    async def ask_any(self, call: Call[T]) -> T:
        """Ask any broker, again while the failure may pass."""

        async def attempt() -> T:
            return await self.ask(await self.any_link(), call)

        return await self.retrying(attempt)

    async def ask_controller(self, call: Call[T]) -> T:
        """Ask the controller, again while the failure may pass."""

        async def attempt() -> T:
            known = self.known or await self._fetch_metadata([], create=False)
            address = known.brokers.get(known.controller_id)
            link = await (self.any_link() if address is None else self.link_to(address))
            return await self.ask(link, call)

        try:
            return await self.retrying(attempt)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER or self._reaches(error):
                raise
            where = "a Unix socket reaches its own broker only: ask on the controller's machine"
            raise ApiError(error.code, f"{error.message}; {where}") from error

    def _reaches(self, refused: ApiError) -> bool:
        """Return whether the controller would be reached if there were one."""
        local = self.bootstrap[0].local_path is not None
        return not local or (refused.message or "").startswith(STORE_UNANSWERED)

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try `attempt` for its result, again after failures that may pass, for `retry_seconds`.

        Whatever was cached of the cluster is forgotten between tries.
        """
        began = outage_began = self.transport.now()
        backoff = BACKOFF_SECONDS_MIN

        def over(since: float, seconds: float) -> bool:
            # Read anew each time: whoever wants to stop sets the seconds to 0.
            return self.transport.now() + backoff > since + seconds

        def outage_over() -> bool:
            seconds = self.outage_seconds
            return over(outage_began, self.retry_seconds if seconds is None else seconds)

        while True:
            try:
                return await attempt()
            except ApiError as error:
                if error.code not in RETRIABLE or over(began, self.retry_seconds):
                    raise
                failure: HeadraceError = error
                outage_began = self.transport.now()
            except Refused:  # whoever is patient waits for brokers, not for another password
                raise
            except (CannotConnect, ConnectionLost, TimedOut) as error:
                if isinstance(error, CannotConnect) and not self.patient:
                    raise
                if outage_over():
                    raise
                failure = error
                if self.outage_seconds is not None:  # what brokers answer has its time afterwards
                    began = self.transport.now()
            self.on_retry(failure)
            self.known = None
            self._coordinators.clear()
            await self.transport.sleep(backoff)
            backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)

    async def metadata(
        self, topics: Sequence[str] | None = None, *, create: bool = False
    ) -> Metadata:
        """Fetch the cluster and `topics` (None: all) now. A topic's own error is in its entry.

        `create`: let the broker make the topics that are missing, where it is configured to.
        """

        async def attempt() -> Metadata:
            return await self._fetch_metadata(topics, create=create)

        return await self.retrying(attempt)

    async def _fetch_metadata(self, topics: Sequence[str] | None, *, create: bool) -> Metadata:
        link = await self.any_link()
        response = await self.ask(link, metadata_call(topics, create=create))
        self.known = Metadata.of(response)
        return self.known

    async def leaders(
        self, topics: Sequence[str], *, create: bool = False, retry_seconds: float | None = None
    ) -> Metadata:
        """Fetch metadata in which each of `topics` exists and each partition has a leader.

        ApiError of the first topic that has none within `retry_seconds`.
        """

        async def attempt() -> Metadata:
            found = await self._fetch_metadata(topics, create=create)
            for name in topics:
                found.check(name)
            return found

        before, self.retry_seconds = self.retry_seconds, retry_seconds or self.retry_seconds
        try:
            return await self.retrying(attempt)
        finally:
            self.retry_seconds = before

    async def broker(self, broker_id: int) -> Link:
        """Return a connection to a broker by its id.

        ApiError where the cluster has no such broker.
        """
        known = self.known or await self._fetch_metadata([], create=False)
        address = known.brokers.get(broker_id)
        if address is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        return await self.link_to(address)

    async def coordinator(self, kind: int, key: str) -> Link:
        """Connect to the coordinator of group (`kind` 0) or transactional id (1) `key`."""
        address = self._coordinators.get((kind, key))
        if address is None:
            address = await self.ask(await self.any_link(), find_coordinator_call(kind, key))
            self._coordinators[kind, key] = address
        return await self.link_to(address)

    async def ask_coordinator(
        self, name: str, call: Call[T], *, kind: int = 0, wait_seconds: float = 0.0
    ) -> T:
        """Ask the coordinator of group (`kind` 0) or transactional id (1) `name`, again while the
        failure may pass."""

        async def attempt() -> T:
            link = await self.coordinator(kind, name)
            return await self.ask(link, call, wait_seconds=wait_seconds)

        return await self.retrying(attempt)


def common_version(served: Mapping[int, tuple[int, int]], call: Call[T]) -> int:
    """Return the newest version of `call` among those `served`; ApiError where there is none.

    The newest of all where nothing is known of the broker yet.
    """
    lowest_ours, highest_ours = call.versions
    if not served:
        return highest_ours
    lowest, highest = served.get(call.key, (0, -1))
    version = min(highest, highest_ours)
    if version < max(lowest, lowest_ours):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the broker does not serve {call.key.name} in a version known here",
        )
    return version

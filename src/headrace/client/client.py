"""Kafka client of one cluster: metadata, a connection to each broker, retries.

Written against `Transport`, so the same code runs on an event loop and on plain sockets. Not
thread-safe.
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
from headrace.ports.backoff import backoff_seconds
from headrace.wire.kafka.frame import parse_response

if TYPE_CHECKING:
    from headrace.client.transport.credentials import Credentials

T = TypeVar("T")

CONNECT_SECONDS = 10.0
"""How many seconds a new connection may take, API versions and authentication included."""
NEXT_ADDRESS_SECONDS = 2.0
"""How many seconds to wait for one of several bootstrap addresses before the next is tried."""
BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
_SESSION_USED = 0.85
"""The part of a SASL session's lifetime that is used before the client reconnects (KIP-368)."""


class Client:
    """A client of one Kafka cluster. All its methods may raise ClientError and ApiError."""

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
        """Create a client; connections are opened when the first request needs them.

        `credentials`: the SASL identity used on each new connection; None: no authentication.
        `patient`: while retries last, also wait for brokers that refuse connections;
        `outage_seconds` bounds that wait separately from retries of errors that brokers return.
        """
        self.transport = transport
        self.bootstrap = list(bootstrap)
        self.client_id = client_id
        self.request_timeout_seconds = request_timeout_seconds
        self.retry_seconds = retry_seconds
        self.patient = patient
        self.credentials = credentials
        self.outage_seconds: float | None = None
        """For how many seconds to wait for unreachable brokers; None: `retry_seconds`."""
        self.on_retry: Callable[[HeadraceError], None] = lambda error: None
        """Called with each error before the failed request is retried."""
        self.known: Metadata | None = None
        """The metadata response fetched last, with the topics requested then; None: fetch it
        first."""
        self._links: dict[Address, Link] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._over: dict[Address, float] = {}
        """When, by the transport's clock, to replace the connection to each broker whose SASL
        session expires (KIP-368)."""
        self._silent: set[Address] = set()
        """Addresses that did not answer the last connection attempt in time; they are tried
        last."""

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
        """Return the connection to `address`, opening one if needed, with its API versions known.

        `seconds`: the timeout of each step of connecting.
        """
        if address.local_path is not None and self.bootstrap[0].local_path is not None:
            # The same socket; the broker may report it under another path.
            address = self.bootstrap[0]
        link = self._links.get(address)
        if link is not None and not link.closed:
            if self.transport.now() < self._over.get(address, float("inf")):
                return link
            # The broker would close it when its SASL session expires; a new one authenticates
            # again.
            link.retire()
        link = await self.connect(address, seconds)
        self._links[address] = link
        return link

    async def connect(self, address: Address, seconds: float = CONNECT_SECONDS) -> Link:
        """Open a connection to `address`, fetch its API versions and authenticate.

        TimedOut after `seconds`, not after the longer request timeout: a paused broker accepts
        connections and never answers.
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
        """Return a connection to any broker: an open one, else to the first address that answers.

        Each of several addresses is first given NEXT_ADDRESS_SECONDS; addresses that timed out
        before are tried last. Only when none answers, those that timed out are tried again for
        CONNECT_SECONDS.
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
        """Send `call` on a connection and return its decoded response.

        `wait_seconds`: how long the broker itself may hold the request (fetch, join), added to the
        timeout. `seconds`: timeout in place of `request_timeout_seconds`. ApiError
        UNSUPPORTED_VERSION if client and broker share no version.
        """
        version = common_version(link.versions, call)
        frame = call.encode(version, link.next_correlation_id(), self.client_id)
        reply = link.send(frame)
        timeout = self.request_timeout_seconds if seconds is None else seconds
        response = await reply.wait(timeout + wait_seconds)
        _, body = parse_response(response, call.key, version)
        return call.decode(version, response[body:])

    async def ask_any(self, call: Call[T]) -> T:
        """Send `call` to any broker, with retries, and return the decoded response."""

        async def attempt() -> T:
            return await self.ask(await self.any_link(), call)

        return await self.retrying(attempt)

    async def ask_controller(self, call: Call[T]) -> T:
        """Send `call` to the controller, with retries, and return the decoded response."""

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
        """Return whether this client can reach the controller: always over TCP; over a Unix socket
        only if the broker is merely waiting for its metadata store."""
        local = self.bootstrap[0].local_path is not None
        return not local or (refused.message or "").startswith(STORE_UNANSWERED)

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Await `attempt()` and return its result; retry passing failures for `retry_seconds`.

        Cached metadata and coordinators are dropped between attempts.
        """
        began = outage_began = self.transport.now()
        failures = 0

        def over(since: float, seconds: float) -> bool:
            # Read again at each attempt: a caller that wants to stop sets the seconds to 0.
            return self.transport.now() + backoff > since + seconds

        def outage_over() -> bool:
            seconds = self.outage_seconds
            return over(outage_began, self.retry_seconds if seconds is None else seconds)

        while True:
            failures += 1
            backoff = backoff_seconds(failures, BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
            try:
                return await attempt()
            except ApiError as error:
                if error.code not in RETRIABLE or over(began, self.retry_seconds):
                    raise
                failure: HeadraceError = error
                outage_began = self.transport.now()
            except Refused:  # A patient client waits for brokers, not for another password.
                raise
            except (CannotConnect, ConnectionLost, TimedOut) as error:
                if isinstance(error, CannotConnect) and not self.patient:
                    raise
                if outage_over():
                    raise
                failure = error
                # Retries of errors that brokers return are timed from here.
                if self.outage_seconds is not None:
                    began = self.transport.now()
            self.on_retry(failure)
            self.known = None
            self._coordinators.clear()
            await self.transport.sleep(backoff)

    async def metadata(
        self, topics: Sequence[str] | None = None, *, create: bool = False
    ) -> Metadata:
        """Fetch metadata of the cluster and of `topics` (None: all topics), with retries.

        An error of one topic is stored in its entry. `create`: auto-create missing topics, if the
        broker is configured to.
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
        """Fetch metadata, retrying until each of `topics` exists and each partition has a leader.

        `retry_seconds`: for how long; None: the client's own. Then ApiError of the first topic that
        is incomplete.
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
        """Return a connection to the broker with this id; ApiError if the cluster has no such
        broker."""
        known = self.known or await self._fetch_metadata([], create=False)
        address = known.brokers.get(broker_id)
        if address is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
        return await self.link_to(address)

    async def coordinator(self, kind: int, key: str) -> Link:
        """Return a connection to the coordinator of `key`: a group (`kind` 0) or transactional id
        (1)."""
        address = self._coordinators.get((kind, key))
        if address is None:
            address = await self.ask(await self.any_link(), find_coordinator_call(kind, key))
            self._coordinators[kind, key] = address
        return await self.link_to(address)

    async def ask_coordinator(
        self, name: str, call: Call[T], *, kind: int = 0, wait_seconds: float = 0.0
    ) -> T:
        """Send `call` to the coordinator of group (`kind` 0) or transactional id (1) `name`, with
        retries."""

        async def attempt() -> T:
            link = await self.coordinator(kind, name)
            return await self.ask(link, call, wait_seconds=wait_seconds)

        return await self.retrying(attempt)


def common_version(served: Mapping[int, tuple[int, int]], call: Call[T]) -> int:
    """Return the newest API version of `call` that both client and broker support; else ApiError.

    `served`: the broker's version range by API key; empty: not known yet, so the client's newest is
    returned.
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

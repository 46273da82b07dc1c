"""The clients by which a broker connects to other brokers, with shared back-off after refusals.

Followers, the controller and coordinators of one broker share what is known about a peer that
refuses its credentials or certificate: the peer is tried again only after a pause, and logged once
a minute.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.client import CONNECT_SECONDS, Client
from headrace.client.transport.credentials import AuthenticationFailed
from headrace.client.transport.port import Address, ClientError, Link, Transport, Untrusted
from headrace.ports.backoff import backoff_seconds

if TYPE_CHECKING:
    from headrace.client.transport.credentials import Credentials

_logger = logging.getLogger(__name__)

REST_SECONDS_MIN = 0.5
REST_SECONDS_MAX = 10.0
"""How many seconds to wait after a refusal before connecting again; doubled after each."""
TOLD_SECONDS = 60.0
"""How many seconds the same refusal by the same peer is not logged again."""


class _Refusal(NamedTuple):
    error: ClientError
    failures: int
    """Refusals in a row."""
    until: float
    """When the broker may connect to the peer again."""
    told: float
    """When the refusal was last logged."""


class Refusals:
    """Peers that failed mutual authentication. Shared by all clients of one broker."""

    def __init__(self, authentication: str, trust: str) -> None:
        """Create an empty table.

        `authentication` and `trust`: the advice logged when credentials or a certificate are
        refused.
        """
        self._remedies = {AuthenticationFailed: authentication, Untrusted: trust}
        self._known: dict[Address, _Refusal] = {}

    def check(self, address: Address, now: float) -> None:
        """Raise the peer's last refusal, a ClientError, again while its pause lasts."""
        known = self._known.get(address)
        if known is not None and now < known.until:
            raise type(known.error)(str(known.error))

    def refused(self, address: Address, error: ClientError, now: float) -> None:
        """Record a refusal: log it if it is new, and start the peer's pause."""
        known = self._known.get(address)
        failures, told = 1, -TOLD_SECONDS
        if known is not None:
            failures = known.failures + 1
            told = known.told if str(known.error) == str(error) else told
        if now - told >= TOLD_SECONDS:
            told = now
            _logger.error(
                "broker at %s: %s: %s; retrying every %g s",
                address, error, self._remedy(error), REST_SECONDS_MAX,
            )  # fmt: skip
        pause = backoff_seconds(failures, REST_SECONDS_MIN, REST_SECONDS_MAX)
        self._known[address] = _Refusal(error, failures, now + pause, told)

    def _remedy(self, error: ClientError) -> str:
        return next(text for kind, text in self._remedies.items() if isinstance(error, kind))

    def believed(self, address: Address) -> None:
        """Clear the peer's refusal: both brokers have authenticated."""
        if self._known and self._known.pop(address, None) is not None:
            _logger.info("broker at %s: authentication succeeds again", address)


class PeerClient(Client):
    """A client by which one broker sends requests to another."""

    refusals: Refusals

    async def connect(self, address: Address, seconds: float = CONNECT_SECONDS) -> Link:
        """Open a connection, unless the peer has just refused one. Raises ClientError."""
        now = self.transport.now
        self.refusals.check(address, now())
        try:
            link = await super().connect(address, seconds)
        except (AuthenticationFailed, Untrusted) as error:
            self.refusals.refused(address, error, now())
            raise
        self.refusals.believed(address)
        return link


class PeerClients:
    """Makes clients that reach other brokers over one listener."""

    def __init__(
        self, transport: Transport, credentials: "Credentials | None", refusals: Refusals
    ) -> None:
        """Create the factory. `credentials`: this broker's SASL identity; None: no
        authentication."""
        self._transport = transport
        self._credentials = credentials
        self._refusals = refusals

    def make(
        self, client_id: str, *, request_timeout_seconds: float = 30.0, patient: bool = False
    ) -> Client:
        """Return a client with connections of its own, opened at first use."""
        client = PeerClient(
            self._transport,
            (),
            client_id=client_id,
            request_timeout_seconds=request_timeout_seconds,
            patient=patient,
            credentials=self._credentials,
        )
        client.refusals = self._refusals
        return client

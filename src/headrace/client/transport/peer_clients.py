"""The clients that a broker talks to others by: encrypted, and as whom; and who refuses it.

A broker that its peers do not believe, or that does not believe them, has many who ask: followers,
the controller, coordinators. They share what is known of a peer's refusal: it is tried again only
after a while, and told by one line a minute.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.client import CONNECT_SECONDS, Client
from headrace.client.transport.credentials import AuthenticationFailed
from headrace.client.transport.port import Address, ClientError, Link, Transport, Untrusted

if TYPE_CHECKING:
    from headrace.client.transport.credentials import Credentials

_logger = logging.getLogger(__name__)

REST_SECONDS_MIN = 0.5
REST_SECONDS_MAX = 10.0
"""How long a peer is not connected to after a refusal; twice as long after each."""
TOLD_SECONDS = 60.0
"""How long the same refusal by the same peer is not told again."""


class _Refusal(NamedTuple):
    error: ClientError
    rest_seconds: float
    until: float
    """When the peer may be connected to again."""
    told: float
    """When it was last told."""


class Refusals:
    """Which peers could not be authenticated to. Shared by the clients of one broker."""

    def __init__(self, authentication: str, trust: str) -> None:
        """What to do where a user is refused, and where a certificate is, in words for people."""
        self._remedies = {AuthenticationFailed: authentication, Untrusted: trust}
        self._known: dict[Address, _Refusal] = {}

    def check(self, address: Address, now: float) -> None:
        """Raise the peer's last refusal, as long as it is too early to try again. ClientError."""
        known = self._known.get(address)
        if known is not None and now < known.until:
            raise type(known.error)(str(known.error))

    def refused(self, address: Address, error: ClientError, now: float) -> None:
        """Take note of a refusal: tell it, where it has not been told, and let the peer rest."""
        known = self._known.get(address)
        rest_seconds, told = REST_SECONDS_MIN, -TOLD_SECONDS
        if known is not None:
            rest_seconds = min(2 * known.rest_seconds, REST_SECONDS_MAX)
            told = known.told if str(known.error) == str(error) else told
        if now - told >= TOLD_SECONDS:
            told = now
            _logger.error(
                "broker at %s: %s: %s; tried again every %g s",
                address, error, self._remedy(error), REST_SECONDS_MAX,
            )  # fmt: skip
        self._known[address] = _Refusal(error, rest_seconds, now + rest_seconds, told)

    def _remedy(self, error: ClientError) -> str:
        return next(text for kind, text in self._remedies.items() if isinstance(error, kind))

    def believed(self, address: Address) -> None:
        """Take note that the peer and we believe each other."""
        if self._known and self._known.pop(address, None) is not None:
            _logger.info("broker at %s: it and this broker believe each other now", address)


class PeerClient(Client):
    """A client of one broker to others."""

    refusals: Refusals

    async def connect(self, address: Address, seconds: float = CONNECT_SECONDS) -> Link:
        """Make a new connection, unless the peer has refused one only now."""
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
    """Makes clients that reach other brokers by the same listener."""

    def __init__(
        self, transport: Transport, credentials: "Credentials | None", refusals: Refusals
    ) -> None:
        """`credentials`: who this broker is over there; None where it need not say."""
        self._transport = transport
        self._credentials = credentials
        self._refusals = refusals

    def make(
        self, client_id: str, *, request_timeout_seconds: float = 30.0, patient: bool = False
    ) -> Client:
        """Return a client with connections of its own; none is made yet."""
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

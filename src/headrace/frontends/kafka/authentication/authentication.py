"""SASL authentication of one connection: handshake, tokens, and re-authentication (KIP-368).

The session has a table of routes for each stage, so that checks cost nothing once authenticated:

    FIRST     ApiVersions, SaslHandshake, SaslAuthenticate
    TOKENS    the same; a mechanism is agreed on, its tokens come in SaslAuthenticate
    RAW       none: every frame is a bare token, as clients send them after SaslHandshake v0
    DONE      all; SaslHandshake begins again where connections.max.reauth.ms is set (KIP-368)
    EXPIRED   SaslHandshake only: the session's lifetime is over
    FAILED    none: the answer leaves after a delay, and the connection ends

Error codes and messages are Kafka's (SaslServerAuthenticator).
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.config.authentication.sasl import SaslListener
from headrace.frontends.kafka.authentication.stage import Stage
from headrace.model.errors import ErrorCode
from headrace.security.identity import USER, Identity, Principal
from headrace.security.sasl.plain import PlainServer
from headrace.security.sasl.sasl import Mechanism, SaslRefused, SaslServer
from headrace.security.sasl.scram import encode64
from headrace.security.sasl.scram_exchange import FindDelegated, ScramServer

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.ports.clock import Timer

log = logging.getLogger(__name__)

GRACE_SECONDS = 0.1
"""Seconds from the answer that refuses until the connection is closed.

kafka-python does not read an answer that comes together with the end, and would report only a
disconnect.
"""


class Outcome(NamedTuple):
    """The result of a client's SASL token: error, message, answer and lifetime."""

    error: ErrorCode
    told: str | None
    token: bytes = b""
    lifetime_ms: int = 0
    """Lifetime of the session in ms; 0: as long as the connection."""


class Door(Protocol):
    """The session whose client authenticates. Implemented by `dispatch.KafkaSession`."""

    def serve(self, stage: Stage) -> None:
        """Serve only the requests that are allowed in `stage`."""

    def authenticated(self, identity: Identity) -> None:
        """Serve all requests from now on, as `identity`."""

    def end(self) -> None:
        """Close the connection after the answers that are ready."""

    def failed(self, seconds: float) -> None:
        """Handle no further request; the client's answer is delayed by so many seconds."""


class Authentication:
    """The SASL stage of one connection, and its transitions. On the deciding thread."""

    __slots__ = (
        "_accepts", "_broker", "_delay_seconds", "_door", "_lifetime_ms", "_mechanism",
        "_principal", "_server",
        "_timer", "_where", "stage",
    )  # fmt: skip

    def __init__(
        self, door: Door, broker: "Broker", accepts: SaslListener | None, where: Identity
    ) -> None:
        """Create the SASL stage of a connection.

        `accepts`: the settings of the listener; None: it has no mechanism. `where` has the client's
        address and listener, without a principal yet.
        """
        self.stage = Stage.FIRST
        self._door = door
        self._broker = broker
        self._accepts = SaslListener(()) if accepts is None else accepts
        self._where = where
        self._mechanism: Mechanism | None = None
        self._server: SaslServer | None = None
        self._principal: Principal | None = None
        """The principal of the first authentication, which later ones must repeat; None: none."""
        self._lifetime_ms = 0
        """Lifetime of the session in ms; 0: as long as the connection."""
        self._timer: Timer | None = None
        self._delay_seconds = 0.0
        """Seconds by which the answer to a failed authentication is delayed."""

    def handshake(self, name: str, *, raw: bool) -> tuple[ErrorCode, tuple[str, ...]]:
        """Choose mechanism `name`; return the error code and the enabled mechanisms.

        `raw`: tokens come as bare frames from now on, without SaslAuthenticate.
        """
        every = self._accepts.mechanisms
        again = self.stage in (Stage.DONE, Stage.EXPIRED)
        if again and not self._lifetime_ms:
            return ErrorCode.ILLEGAL_SASL_STATE, ()
        if not again and self.stage is not Stage.FIRST:
            self.refuse(f"SaslHandshake during {self.stage.value}")
            return ErrorCode.ILLEGAL_SASL_STATE, ()
        if name not in every:
            self.refuse(f"mechanism {name[:40]!r} is not enabled")
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, every
        mechanism = Mechanism(name)
        if again and mechanism != self._mechanism:
            self.refuse(f"from {self._mechanism} to {mechanism} while authenticating again")
            return ErrorCode.ILLEGAL_SASL_STATE, ()
        self._mechanism = mechanism
        self._server = self._server_of(mechanism)
        self.stage = Stage.RAW if raw else Stage.TOKENS
        self._door.serve(self.stage)
        return ErrorCode.NONE, every

    def _server_of(self, mechanism: Mechanism) -> SaslServer:
        if mechanism is Mechanism.PLAIN:
            return PlainServer(self._accepts.passwords)
        if mechanism is Mechanism.OAUTHBEARER:
            from headrace.security.sasl.oauthbearer import OAuthBearerServer

            return OAuthBearerServer(self._broker.users.verifiers[self._where.listener].check)
        users, random = self._broker.users, self._broker.random
        return ScramServer(
            mechanism,
            lambda user: users.of(user).get(mechanism),
            encode64(random.uuid() + random.uuid()),
            users.disguise(random),
            self._delegated(mechanism),
        )

    def _delegated(self, mechanism: Mechanism) -> FindDelegated | None:
        """Return the lookup of delegation tokens for SCRAM; None: tokens are disabled."""
        tokens, clock = self._broker.users.delegation_tokens, self._broker.clock
        if tokens is None:
            return None
        return lambda token_id: tokens.credential(token_id, mechanism, clock.wall_ms())

    def respond(self, token: bytes) -> Outcome:
        """Handle the client's next token; return the error or the server's token."""
        if self.stage is Stage.DONE:
            return Outcome(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication",
            )
        server = self._server
        if server is None:
            self.refuse("SaslAuthenticate before SaslHandshake")
            return Outcome(
                ErrorCode.ILLEGAL_SASL_STATE,
                "Unexpected Kafka request of type SASL_AUTHENTICATE during SASL handshake.",
            )
        try:
            if len(token) > self._broker.config.sasl_server_max_receive_size:
                raise SaslRefused(f"a token of {len(token)} bytes (sasl.server.max.receive.size)")
            answer = server.respond(token)
            lifetime_ms = self._let_in(server) if server.done else 0
        except SaslRefused as refused:
            self.refuse(str(refused))
            return Outcome(ErrorCode.SASL_AUTHENTICATION_FAILED, refused.told or self._told())
        return Outcome(ErrorCode.NONE, None, answer, lifetime_ms)

    def _told(self) -> str:
        """Return the error message for invalid credentials, the same for every reason."""
        again = "authentication" if self._principal is None else "re-authentication"
        return (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism"
            f" {self._mechanism}"
        )

    def _let_in(self, server: SaslServer) -> int:
        """Serve all requests of the proven user; return the session's lifetime in ms.

        Raises SaslRefused if a re-authentication names another user.
        """
        principal = Principal(USER, server.user)
        if self._principal not in (None, principal):
            raise SaslRefused(
                f"{self._principal} cannot become {principal} while authenticating again",
                f"Cannot change principals during re-authentication from {self._principal}"
                f" to {principal}",
            )
        self._principal, self._server, self.stage = principal, None, Stage.DONE
        self._lifetime_ms = lifetime_ms = self._lifetime_of(server)
        self.closed()
        if lifetime_ms:
            self._timer = self._broker.clock.call_later(lifetime_ms / 1000, self._expire)
        identity = self._where._replace(
            principal=principal, by_delegation_token=server.by_delegation_token
        )
        self._door.authenticated(identity)
        return lifetime_ms

    def _lifetime_of(self, server: SaslServer) -> int:
        """Return the session's lifetime in ms; 0: as long as the connection.

        As in KIP-368, the lesser of connections.max.reauth.ms and the rest of a token's lifetime. A
        token that has ended, and was accepted because clocks differ, has one millisecond.
        """
        longest_ms = 0
        if self._mechanism is not None:
            longest_ms = self._accepts.reauth_ms.get(self._mechanism, 0)
        if server.ends_ms is None:
            return longest_ms
        left_ms = max(1, server.ends_ms - self._broker.clock.wall_ms())
        return min(longest_ms or left_ms, left_ms)

    def _expire(self) -> None:
        """Serve only SaslHandshake from now on: the session's lifetime is over."""
        self._timer = None
        if self.stage is Stage.DONE:
            self.stage = Stage.EXPIRED
            self._door.serve(self.stage)

    def raw(self, frame: memoryview) -> bytes | None:
        """Answer a bare token by a bare token with its length; None: the connection ends."""
        if self.stage is Stage.FAILED:
            return None  # sent together with the failed token: unanswered
        outcome = self.respond(bytes(frame))
        if outcome.error:
            self.later(self._door.end)
            return None
        return len(outcome.token).to_bytes(4, "big") + outcome.token

    def refuse(self, because: str) -> None:
        """Handle no further request, and log why; the answer is to be sent by `later`."""
        self._tell(because)
        self.stage, self._server = Stage.FAILED, None
        self.closed()
        self._door.serve(self.stage)
        config = self._broker.config
        self._delay_seconds = self._broker.failed_attempts.delay_seconds(
            self._where.host,
            first_ms=config.connection_failed_authentication_delay_ms,
            most_ms=config.connection_failed_authentication_delay_max_ms,
        )
        self._door.failed(self._delay_seconds)

    def _tell(self, because: str) -> None:
        by = "SASL" if self._mechanism is None else self._mechanism
        log.warning(
            "%s on %s: authentication by %s failed: %s",
            self._where.host, self._where.listener, by, because,
        )  # fmt: skip

    def later(self, then: Callable[[], None]) -> None:
        """Call `then` after the delay of a failed authentication."""
        self._broker.clock.call_later(self._delay_seconds, then)

    @property
    def failed(self) -> bool:
        """Whether authentication failed: the next answer is the last, to be sent by `later`."""
        return self.stage is Stage.FAILED

    def answered(self) -> None:
        """Note that an answer is being sent; after a failure the connection ends soon."""
        if self.stage is Stage.FAILED:
            self._broker.clock.call_later(GRACE_SECONDS, self._door.end)

    def closed(self) -> None:
        """Cancel the session's timer, and log a failure that the client did not wait for."""
        if self._server is not None and self._server.rejected:
            # The client disconnected before its rejection was complete.
            self._tell(self._server.rejected)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

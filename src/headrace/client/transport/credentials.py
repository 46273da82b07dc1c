"""SASL on the client: credentials from Kafka's settings, and the exchange on a new connection."""

import base64
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.client.calls.call import check
from headrace.client.transport.port import Buffer, Refused
from headrace.config.authentication.jaas import parse_jaas
from headrace.config.keys.sasl import JAAS, MECHANISMS
from headrace.config.listeners import SASL_PROTOCOLS, client_protocol
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.secret import Secret
from headrace.security.sasl.plain import PlainClient
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, Mechanism, SaslClient, SaslRefused
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import Writer

MECHANISM = "sasl.mechanism"
TOKEN_FILE = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a setting's name
"""Kafka's setting (KIP-768) for the OAUTHBEARER token; here a file, as file:/PATH."""
_USERNAME, _PASSWORD = "sasl.username", "sasl.password"
_TOKEN_AUTH = "tokenauth"  # noqa: S105 - an option's name


class AuthenticationFailed(Refused):
    """The broker refused the credentials, or failed to prove its own. A retry will not help."""


class Credentials(NamedTuple):
    """A client's SASL identity, for SASL_PLAINTEXT and SASL_SSL listeners."""

    mechanism: Mechanism
    user: str
    password: Secret
    delegated: bool = False
    """Whether user and password are a delegation token's id and HMAC (KIP-48)."""
    token_file: str | None = None
    """Path of the OAUTHBEARER token, read again for each connection; None: another mechanism."""


def credentials_in(settings: Mapping[str, str]) -> Credentials | None:
    """Return the SASL credentials in a client's settings; None if its protocol has no SASL.

    Accepts Kafka's names and librdkafka's sasl.username and sasl.password. ConfigError, whose text
    contains no secret.
    """
    if client_protocol(settings) not in SASL_PROTOCOLS:
        return None
    name = settings.get(MECHANISM, settings.get("sasl.mechanisms", ""))
    if name not in MECHANISMS:
        raise ConfigError(f"{MECHANISM}={name}: must be one of {', '.join(MECHANISMS)}")
    if name == Mechanism.OAUTHBEARER:
        return Credentials(Mechanism(name), "", Secret(""), token_file=_token_file(settings))
    user, password = settings.get(_USERNAME), settings.get(_PASSWORD)
    delegated = False
    secret = None if password is None else Secret(password)
    if JAAS.name in settings:
        try:
            options = parse_jaas(settings[JAAS.name]).options
        except ValueError as error:
            raise ConfigError(f"{JAAS.name}=…: {error}") from None
        named = options.get("username")
        user, secret = None if named is None else named.reveal(), options.get("password")
        said = options.get(_TOKEN_AUTH)
        delegated = said is not None and said.reveal().strip().lower() == "true"
    if not user or secret is None:
        raise ConfigError(f"{JAAS.name}: needs username and password")
    if delegated and name == Mechanism.PLAIN:
        raise ConfigError(f"{JAAS.name}: {_TOKEN_AUTH} is for SCRAM, not for {name}")
    return Credentials(Mechanism(name), user, secret, delegated)


def _token_file(settings: Mapping[str, str]) -> str:
    """Return the path of the OAUTHBEARER token file. Raises ConfigError."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(settings.get(TOKEN_FILE, ""))
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not parts.path:
        raise ConfigError(
            f"{TOKEN_FILE}: this client reads its token from a file and requests none:"
            " must be file:/PATH"
        )
    return unquote(parts.path)


class HandshakeCall:
    """SaslHandshake v1: propose the SASL mechanism."""

    key = ApiKey.SASL_HANDSHAKE
    versions = (1, 1)

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""
        writer = Writer()
        writer.string(self._mechanism)
        return [
            request_head(self.key, version, correlation_id, client_id, len(writer.out)),
            writer.out,
        ]

    def decode(self, version: int, body: memoryview) -> None:
        """Check the response; ApiError names the mechanisms that the broker supports."""
        reader = Reader(body)
        code = reader.int16()
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise ApiError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"the broker does not offer {self._mechanism}, but {', '.join(reader.strings())}",
            )
        check(code)


class TokenCall:
    """SaslAuthenticate v0-v1: one token of the SASL exchange."""

    key = ApiKey.SASL_AUTHENTICATE
    versions = (0, 1)

    def __init__(self, token: bytes) -> None:
        self._token = token

    def encode(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """Encode the whole request frame, header included."""
        writer = Writer()
        writer.bytes(self._token)
        return [
            request_head(self.key, version, correlation_id, client_id, len(writer.out)),
            writer.out,
        ]

    def decode(self, version: int, body: memoryview) -> tuple[bytes, int]:
        """Decode the broker's token and the session lifetime in ms (0: unlimited)."""
        reader = Reader(body)
        code, told = reader.int16(), reader.nullable_string()
        check(code, told)
        token = bytes(reader.bytes())
        return token, reader.int64() if version >= 1 else 0


def exchange(credentials: Credentials) -> Generator[HandshakeCall | TokenCall, Any, int]:
    """Yield the requests of a SASL exchange; send in each decoded response.

    Returns the session lifetime in ms, 0 if unlimited. Raises AuthenticationFailed.
    """
    try:
        yield HandshakeCall(credentials.mechanism)
        client = _client(credentials)
        token: bytes | None = client.first()
        lifetime_ms = 0
        while token is not None:
            answer, lifetime_ms = yield TokenCall(token)
            token = client.respond(answer)
    except (ApiError, SaslRefused) as error:
        said = error.message if isinstance(error, ApiError) else str(error)
        who = f"user {credentials.user}" if credentials.user else str(credentials.mechanism)
        raise AuthenticationFailed(f"{who}: {said or error}") from None
    return lifetime_ms


async def authenticate(
    credentials: Credentials, ask: Callable[[HandshakeCall | TokenCall], Awaitable[Any]]
) -> int:
    """Authenticate on a connection; `ask` sends each request and returns its decoded response.

    Returns the session lifetime in ms, 0 if unlimited. AuthenticationFailed, or any other error of
    `ask`.
    """
    asking = exchange(credentials)
    call = next(asking)
    while True:
        try:
            answer = await ask(call)
        except ApiError as error:
            asking.throw(error)
            raise
        try:
            call = asking.send(answer)
        except StopIteration as done:
            lifetime_ms: int = done.value
            return lifetime_ms


def _client(credentials: Credentials) -> SaslClient:
    if credentials.mechanism is Mechanism.PLAIN:
        return PlainClient(credentials.user, credentials.password)
    if credentials.token_file is not None:
        from headrace.security.sasl.oauthbearer import OAuthBearerClient

        return OAuthBearerClient(_token(credentials.token_file))
    from secrets import token_bytes

    from headrace.security.sasl.scram_exchange import ScramClient

    nonce = base64.b64encode(token_bytes(24)).decode()
    mechanism, user, password, delegated, _ = credentials
    return ScramClient(mechanism, user, password, nonce, delegated=delegated)


def _token(path: str) -> Secret:
    """Read the token file, which another process renews; SaslRefused if it is missing or
    invalid."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(TOKEN_BYTES_MAX + 1)
        text = data.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not a token"
        raise SaslRefused(f"{TOKEN_FILE}={path}: {why.lower()}") from None
    if not text or len(data) > TOKEN_BYTES_MAX:
        raise SaslRefused(f"{TOKEN_FILE}={path}: is not a token")
    return Secret(text)

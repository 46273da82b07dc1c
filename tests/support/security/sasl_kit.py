"""Authenticating byte by byte: a broker with a SASL listener, and whoever knocks at it."""

import socket
import struct
from collections.abc import Mapping
from typing import Any, Self

from headrace.config.authentication.jaas import PLAIN_MODULE
from headrace.model.errors import ErrorCode
from headrace.model.secret import Secret
from headrace.security.sasl import scram
from headrace.security.sasl.sasl import Mechanism, SaslClient
from headrace.security.sasl.scram_exchange import ScramClient
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response, request_head
from tests.support.security.authorisation import frame_of

USER, PASSWORD = "alice", "wonder,land="
"""Who can authenticate by every mechanism."""
WAIT_SECONDS = 20.0
JAAS = "listener.name.sasl.plain.sasl.jaas.config"
PLAIN_USERS = f'{PLAIN_MODULE} required user_alice="{PASSWORD}" user_bob="builder";'


def guarded(**settings: str) -> BrokerThread:
    """A broker with a listener SASL for every mechanism, and one without behind it."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return BrokerThread(
        {
            "listeners": "SASL://127.0.0.1:0,OPEN://127.0.0.1:0",
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,OPEN:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            JAAS: PLAIN_USERS,
            "super.users": f"User:{USER};User:bob",
            # Failures of a module's tests add up to waits of 5 s, which none of them is about.
            "connection.failed.authentication.delay.max.ms": "100",
            **given,
        }
    )


def add_scram_users(broker: BrokerThread, user: str = USER, password: str = PASSWORD) -> None:
    """Have the user authenticate by both SCRAM mechanisms."""

    def put() -> None:
        broker.server.broker.users.put(
            user,
            {
                mechanism: scram.make_credential(mechanism, Secret(password), b"salt", 4096)
                for mechanism in scram.HASHES
            },
        )

    broker.call(lambda server: put())


class Knocking:
    """A connection to a listener, that sends what it is told and reads answers."""

    def __init__(self, broker: BrokerThread, listener: int = 0) -> None:
        port = broker.server.listeners[listener].port
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)

    @classmethod
    def over(cls, connected: socket.socket) -> Self:
        """One over a socket that is connected already, by TLS perhaps."""
        self = cls.__new__(cls)
        self._socket = connected
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def send(self, frame: bytes) -> None:
        """Send a frame as it is, with its length."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def frame(self) -> bytes | None:
        """The next frame; None: the connection has ended."""
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(*struct.unpack(">i", head))
        except ConnectionResetError:
            return None

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                return None
            data += more
        return data

    def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """One request and its answer; None: the connection has ended."""
        self.send(request(key, version, **fields))
        return self._answer(key, version)

    def ask_values(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """The same with plain values (`tests.support.security.authorisation.entity`)."""
        self._socket.sendall(frame_of(key, version, values))
        return self._answer(key, version)

    def _answer(self, key: ApiKey, version: int) -> Any:
        frame = self.frame()
        if frame is None:
            return None
        view = memoryview(frame)
        return kio_codec.decode_response(
            key, version, view[parse_response(view, key, version)[1] :]
        )

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        """Ask for a mechanism."""
        return self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    def token(self, token: bytes, version: int = 2) -> Any:
        """Send one token."""
        return self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)

    def log_in(self, mechanism: str = "PLAIN", user: str = USER, password: str = PASSWORD) -> Any:
        """Handshake and all tokens; the last answer."""
        answer = self.handshake(mechanism)
        assert ErrorCode(answer.error_code) is ErrorCode.NONE
        client = client_of(mechanism, user, password)
        token: bytes | None = client.first()
        while token is not None:
            answer = self.token(token)
            if answer.error_code:
                return answer
            token = client.respond(bytes(answer.auth_bytes)) if mechanism != "PLAIN" else None
        return answer

    def topics(self) -> Any:
        """Something that only who is let in is answered."""
        return self.ask(ApiKey.METADATA, 1, topics=None)


def client_of(mechanism: str, user: str = USER, password: str = PASSWORD) -> SaslClient:
    """The client's side of a mechanism."""
    from headrace.security.sasl.plain import PlainClient

    if mechanism == "PLAIN":
        return PlainClient(user, Secret(password))
    return ScramClient(Mechanism(mechanism), user, Secret(password), "nonce")


def request(key: ApiKey, version: int, **fields: Any) -> bytes:
    """A request, without its length."""
    body = kio_codec.encode_body(kio_codec.request_type(key, version)(**fields))
    return bytes(request_head(key, version, 7, "test", len(body)) + body)[4:]

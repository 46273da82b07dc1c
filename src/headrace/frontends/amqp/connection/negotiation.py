"""Negotiation of a connection before it is open: start, login, tune."""

import re
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.model.secret import Secret
from headrace.queues.permissions.definitions import GUEST
from headrace.security.sasl.plain import parse
from headrace.security.sasl.sasl import SaslRefused
from headrace.vhosts.users.logins import Credentials, Peer
from headrace.wire.amqp.control_methods import (
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from headrace.wire.amqp.field_table import FieldTable, decode_table
from headrace.wire.amqp.frames import FRAME_BYTES_MIN
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode
from headrace.wire.amqp.settings import AmqpKeys

PLAIN, AMQPLAIN, EXTERNAL, ANONYMOUS = "PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"
CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
_CHANNEL_MAX_MIN = 1
FRAME_BYTES_MIN_4_1 = 8192
"""Smallest `frame_max` in bytes that RabbitMQ accepts from version 4.1 on."""
_NUMBERS = re.compile("[0-9]+")
_SHORT_MAX = (1 << 16) - 1
FIRST_FRAMES_BYTES_MAX = 8192
"""Largest frame in bytes before a size is negotiated: a token may have some thousand bytes."""
HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
"""The header of AMQP 0-9, accepted like that of 0-9-1."""


class Settings(NamedTuple):
    """The broker's offers to AMQP clients; the defaults are RabbitMQ's."""

    version: str = "4.0.5"
    """RabbitMQ version that is announced to clients; some adapt their requests to it."""
    cluster_name: str = "headrace"
    channel_max: int = 2047
    frame_bytes_max: int = 131_072
    heartbeat_s: int = 60
    message_bytes_max: int = 16 << 20
    """Largest body of a message in bytes."""
    guest: bool = False
    """Whether user guest may log in; also offers the mechanism ANONYMOUS."""

    @property
    def frame_bytes_min(self) -> int:
        """Smallest `frame_max` in bytes that a client may choose, by the announced version."""
        version = [int(part) for part in _NUMBERS.findall(self.version)[:2]]
        return FRAME_BYTES_MIN_4_1 if version >= [4, 1] else FRAME_BYTES_MIN


def settings_of(config: AmqpKeys, cluster_name: str) -> Settings:
    """Return the broker's offers to AMQP clients that its configuration sets."""
    return Settings(
        version=config.amqp_advertised_version,
        cluster_name=cluster_name,
        channel_max=min(config.amqp_channel_max, _SHORT_MAX),
        frame_bytes_max=config.amqp_frame_max_bytes,
        heartbeat_s=min(config.amqp_heartbeat_seconds, _SHORT_MAX),
        message_bytes_max=config.amqp_message_max_bytes,
        guest=config.amqp_guest,
    )


class Tuned(NamedTuple):
    """The limits of a connection that broker and client negotiated; `heartbeat_s` 0: none."""

    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int


def mechanisms_for(settings: Settings, peer: Peer) -> list[str]:
    """Return the SASL mechanisms that are offered to a peer."""
    mechanisms = [PLAIN, AMQPLAIN]
    if peer.certificate_name is not None:
        mechanisms.append(EXTERNAL)
    if settings.guest:
        mechanisms.append(ANONYMOUS)
    return mechanisms


def start(settings: Settings, peer: Peer) -> ConnectionStart:
    """Return connection.start, the broker's first method."""
    properties: FieldTable = {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": settings.cluster_name,
        "product": "RabbitMQ",
        "version": settings.version,
        "platform": "Headrace",
        "information": "Headrace speaks RabbitMQ's protocol",
    }
    names = " ".join(mechanisms_for(settings, peer))
    return ConnectionStart(0, 9, properties, names.encode(), b"en_US")


def credentials_of(settings: Settings, peer: Peer, answer: ConnectionStartOk) -> Credentials:
    """Return a client's credentials; raise ConnectionClosing if they are malformed."""
    mechanism, response = answer.mechanism, answer.response
    if mechanism not in mechanisms_for(settings, peer):
        raise ConnectionClosing(
            ReplyCode.COMMAND_INVALID, f"unknown authentication mechanism '{mechanism}'"
        )
    if mechanism == EXTERNAL:
        return Credentials(EXTERNAL, peer.certificate_name or "", None)
    if mechanism == ANONYMOUS:  # RabbitMQ's anonymous_login_user and anonymous_login_pass
        return Credentials(ANONYMOUS, GUEST, Secret(GUEST))
    if mechanism == AMQPLAIN:
        return _amqplain(response)
    try:
        _, user, password = parse(response)
    except SaslRefused as refused:
        raise ConnectionClosing(ReplyCode.SYNTAX_ERROR, f"response invalid: {refused}") from None
    return Credentials(PLAIN, user, password)


def _amqplain(response: bytes) -> Credentials:
    """Parse an AMQPLAIN response, a table with LOGIN and PASSWORD without its length."""
    try:
        table = decode_table(response)
    except Malformed as malformed:
        raise ConnectionClosing(
            ReplyCode.SYNTAX_ERROR, f"AMQPLAIN response invalid: {malformed}"
        ) from None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str) or not isinstance(password, str):
        raise ConnectionClosing(
            ReplyCode.SYNTAX_ERROR, "AMQPLAIN auth info is missing LOGIN or PASSWORD field"
        )
    return Credentials(AMQPLAIN, login, Secret(password))


def tune(settings: Settings) -> ConnectionTune:
    """Return connection.tune with the broker's proposed limits."""
    return ConnectionTune(settings.channel_max, settings.frame_bytes_max, settings.heartbeat_s)


def tuned(settings: Settings, answer: ConnectionTuneOk) -> Tuned:
    """Return the limits that a client chose; raise ConnectionClosing if out of bounds.

    A client's 0 means no limit, which exceeds every limit. Its heartbeat is accepted unchecked.
    """
    _check("frame_max", settings.frame_bytes_min, settings.frame_bytes_max, answer.frame_max)
    _check("channel_max", _CHANNEL_MAX_MIN, settings.channel_max, answer.channel_max)
    return Tuned(answer.channel_max, answer.frame_max or _UNLIMITED, answer.heartbeat)


_UNLIMITED = (1 << 32) - 1


def _check(field: str, least: int, most: int, value: int) -> None:
    """Raise ConnectionClosing unless a client's value is within bounds; `most` 0: no upper one."""
    shown = f"{value} (no limit)" if field == "channel_max" and value == 0 else str(value)
    if value and value < least:
        text = f"negotiated {field} = {shown} is lower than the minimum allowed value ({least})"
    elif most and (value == 0 or value > most):
        text = f"negotiated {field} = {shown} is higher than the maximum allowed value ({most})"
    else:
        return
    raise ConnectionClosing(ReplyCode.NOT_ALLOWED, text)


def capability(client_properties: FieldTable, name: str) -> bool:
    """Return whether a client announced the capability `name`."""
    capabilities = client_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True


def wrong_header(first: bytes) -> str:
    """Return the log text for a connection that began with another protocol's bytes."""
    return f"a client began with {first!r} instead of AMQP 0-9-1's header"

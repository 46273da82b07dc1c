"""`ForeignClients`: refuse clients that connect to a listener of another protocol."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.ports.disk import Buffer
from headrace.wire.first_bytes import (
    FIRST_BYTES,
    HTTP,
    TLS,
    TLS_ALERT,
    FirstBytes,
    client_protocol,
)


class Spoken(NamedTuple):
    """The protocol of a listener, with its name and address."""

    protocol: FirstBytes
    name: str
    """The name in `listeners`: PLAINTEXT, SASL_SSL, AMQPS."""
    address: str
    tls: bool = False
    advice: str = ""
    """How to configure TLS in a client that connected without it."""


class ForeignClient(Malformed):
    """A client speaks another protocol than its listener; its connection is closed."""

    def __init__(self, text: str, answer: bytes) -> None:
        super().__init__(text)
        self.answer = answer
        """Bytes to send to the client, in its own protocol."""


class ForeignClients:
    """The protocols of all listeners of a broker, by listener name."""

    def __init__(self, listeners: Mapping[str, Spoken]) -> None:
        self._listeners = listeners

    def check(self, listener: str, first: bytes) -> None:
        """Raise ForeignClient if a client's first bytes are of another protocol.

        `first`: FIRST_BYTES, decrypted if the listener uses TLS.
        """
        here = self._listeners.get(listener)
        if here is None or re.match(here.protocol.begins, first):
            return
        row = client_protocol(first)
        if row is None:
            return
        where = f"{here.protocol.client} listener"
        if row is TLS and not here.tls:
            where += " without TLS"
            others = [
                spoken
                for spoken in self._listeners.values()
                if spoken.tls and spoken.protocol is here.protocol
            ]
        else:
            others = [spoken for spoken in self._listeners.values() if spoken.protocol is row]
        text = f"this is {row.client} client at {where}; {_places(row, others)}"
        raise ForeignClient(text, row.refusal(text) or here.protocol.greeting)

    def without_tls(self, listener: str, received: Buffer) -> ForeignClient:
        """Return the refusal of a client that begins without TLS at a TLS listener."""
        here = self._listeners.get(listener)
        row = client_protocol(bytes(received[:FIRST_BYTES]))
        if here is None or row is None or row is TLS:
            advice = "set security.protocol=SSL there" if here is None else here.advice
            return ForeignClient(f"the client does not speak TLS: {advice}", TLS_ALERT)
        if row is here.protocol:
            text = f"this is {row.client} client without TLS at a listener that speaks {here.name}"
            text = f"{text}: {here.advice}"
            # Web servers answer plain HTTP on an HTTPS port; AMQP and Kafka servers do not.
            return ForeignClient(text, row.refusal(text) if row is HTTP else TLS_ALERT)
        others = [spoken for spoken in self._listeners.values() if spoken.protocol is row]
        text = f"this is {row.client} client at {here.protocol.client} listener with TLS"
        text = f"{text}; {_places(row, others)}"
        return ForeignClient(text, row.refusal(text) or TLS_ALERT)


def _places(row: FirstBytes, spoken: list[Spoken]) -> str:
    if not spoken:
        return f"this broker has no listener that speaks {row.name}"
    names = {each.name for each in spoken} if row is TLS else {row.name}
    addresses = ", ".join(each.address for each in spoken)
    return f"{', '.join(sorted(names))} listens on {addresses}"


NO_LISTENERS = ForeignClients({})

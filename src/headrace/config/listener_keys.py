"""Keys of one listener, or of one of its mechanisms: `listener.name.<name>.[<mechanism>.]<key>`.

Such a key has the type of the general key in its name, and overrides it for that listener.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.config.keys import network, tls
from headrace.config.keys.oauthbearer import HANDLER
from headrace.config.keys.sasl import MECHANISMS, OAUTHBEARER, OF_A_LISTENER, OF_A_MECHANISM
from headrace.config.listeners import (
    LISTENER_PREFIX,
    LISTENER_PROTOCOLS,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
)
from headrace.config.value_types import Value

_LOWER = {mechanism.lower(): mechanism for mechanism in MECHANISMS}
_OF_A_LISTENER = network.UNDER_A_LISTENER | tls.UNDER_A_LISTENER | OF_A_LISTENER


class ListenerKey(NamedTuple):
    """A parsed `listener.name.…` key: the listener, the mechanism and the general key."""

    listener: str
    """The listener's name, in capitals."""
    mechanism: str
    """A name of `MECHANISMS`; "": the key applies to all of them."""
    key: str
    """The general key in its name."""

    @property
    def full(self) -> str:
        """The key as it is written in a configuration."""
        words = (self.listener.lower(), self.mechanism.lower(), self.key)
        return LISTENER_PREFIX + ".".join(filter(None, words))

    @property
    def protocols(self) -> frozenset[str]:
        """The security protocols of listeners that use this key."""
        if self.key in network.UNDER_A_LISTENER:
            return frozenset(LISTENER_PROTOCOLS)
        return TLS_PROTOCOLS if self.key in tls.UNDER_A_LISTENER else SASL_PROTOCOLS


def parse_listener_key(text: str) -> ListenerKey | None:
    """Parse a `listener.name.…` key; return None if listeners have no such key."""
    if not text.startswith(LISTENER_PREFIX):
        return None
    listener, _, key = text.removeprefix(LISTENER_PREFIX).partition(".")
    if not listener:
        return None
    if key in _OF_A_LISTENER:
        return ListenerKey(listener.upper(), "", key)
    mechanism, _, key = key.partition(".")
    name = _LOWER.get(mechanism, "")
    if name and (key in OF_A_MECHANISM or (name, key) == (OAUTHBEARER, HANDLER.name)):
        return ListenerKey(listener.upper(), name, key)
    return None


class ListenerValues:
    """The values in effect for each listener, looked up in all settings by key."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self._own: dict[ListenerKey, Value] = {}
        for name, value in values.items():
            key = parse_listener_key(name)
            if key is not None and value is not None:
                self._own[key] = value

    def own(self, listener: str, key: str, mechanism: str = "") -> Value:
        """Return the value set for the listener (and mechanism) alone, or None."""
        return self._own.get(ListenerKey(listener, mechanism, key))

    def of(self, listener: str, key: str, mechanism: str = "") -> Value:
        """Return a key's value in effect: the mechanism's, the listener's, or the general one."""
        for own in dict.fromkeys((mechanism, "")):
            value = self.own(listener, key, own)
            if value is not None:
                return value
        return self._values[key]

    def text(self, listener: str, key: str) -> str | None:
        """Return a key's value in effect for a listener as text, or None if it is unset."""
        value = self.of(listener, key)
        return value if isinstance(value, str) else None

    def words(self, listener: str, key: str) -> tuple[str, ...]:
        """Return a key's value in effect for a listener as a list."""
        value = self.of(listener, key)
        return value if isinstance(value, tuple) else ()

    def unheard(self, protocols: Mapping[str, str]) -> list[ListenerKey]:
        """Return listener keys without effect: no such listener, or of another protocol.

        `protocols`: the security protocol of each listener, by name.
        """
        return [key for key in self._own if protocols.get(key.listener) not in key.protocols]

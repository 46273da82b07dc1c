"""Keys of one listener, or of one mechanism there: `listener.name.<name>.[<mechanism>.]<key>`.

They are settings like others, with the type of the key that they are named after; what a listener
says wins over what is said for all.
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
    """Whose key it is, and which."""

    listener: str
    """In capitals."""
    mechanism: str
    """As in `MECHANISMS`; empty: of all."""
    key: str

    @property
    def full(self) -> str:
        """How it is written."""
        words = (self.listener.lower(), self.mechanism.lower(), self.key)
        return LISTENER_PREFIX + ".".join(filter(None, words))

    @property
    def protocols(self) -> frozenset[str]:
        """The protocols whose listeners heed it."""
        if self.key in network.UNDER_A_LISTENER:
            return frozenset(LISTENER_PROTOCOLS)
        return TLS_PROTOCOLS if self.key in tls.UNDER_A_LISTENER else SASL_PROTOCOLS


def parse_listener_key(text: str) -> ListenerKey | None:
    """Parse a key with a listener's name before it; None where no listener has one like that."""
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
    """What holds for each listener, out of the settings by key."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self._own: dict[ListenerKey, Value] = {}
        for name, value in values.items():
            key = parse_listener_key(name)
            if key is not None and value is not None:
                self._own[key] = value

    def own(self, listener: str, key: str, mechanism: str = "") -> Value:
        """Return what is said for the listener, or for one mechanism there, by name; None."""
        return self._own.get(ListenerKey(listener, mechanism, key))

    def of(self, listener: str, key: str, mechanism: str = "") -> Value:
        """Return what holds: the nearest of what is said for the mechanism, the listener, all."""
        for own in dict.fromkeys((mechanism, "")):
            value = self.own(listener, key, own)
            if value is not None:
                return value
        return self._values[key]

    def text(self, listener: str, key: str) -> str | None:
        """Return a text that holds, None where there is none."""
        value = self.of(listener, key)
        return value if isinstance(value, str) else None

    def words(self, listener: str, key: str) -> tuple[str, ...]:
        """Return a list that holds."""
        value = self.of(listener, key)
        return value if isinstance(value, tuple) else ()

    def unheard(self, protocols: Mapping[str, str]) -> list[ListenerKey]:
        """Return the keys that no listener heeds; `protocols` are by listener."""
        return [key for key in self._own if protocols.get(key.listener) not in key.protocols]

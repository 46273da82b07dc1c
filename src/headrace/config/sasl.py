"""What clients of each SASL listener may authenticate by: general keys, and those with its name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headrace.config.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from headrace.config.keys.sasl import SaslKeys
from headrace.config.listeners import LISTENER_PREFIX, Listener
from headrace.config.oauthbearer import (
    HANDLER_KEY,
    HANDLERS,
    OAUTHBEARER,
    OF_LISTENERS,
    OAuthBearerListener,
    oauthbearer_listener,
)
from headrace.config.value_types import Value
from headrace.model.secret import Secret

PROTOCOLS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
_ENABLED, _REAUTH = "sasl.enabled.mechanisms", "connections.max.reauth.ms"
_JAAS = "sasl.jaas.config"
_OF_LISTENERS = frozenset({_ENABLED, _REAUTH, *OF_LISTENERS})
_OF_MECHANISMS = frozenset({_JAAS, _REAUTH})
_MODULES = {"PLAIN": PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE}
_LOWER = tuple(mechanism.lower() for mechanism in MECHANISMS)

Problem = tuple[str, str, str]
"""What is wrong: the key, what it says, and why not."""


class SaslListener(NamedTuple):
    """How clients of one listener authenticate."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, Secret] = MappingProxyType({})
    """Of PLAIN's users."""
    reauth_ms: Mapping[str, int] = MappingProxyType({})
    """How long a session may last, by mechanism; 0: as long as it likes."""
    oauthbearer: OAuthBearerListener | None = None
    """How tokens are checked, where OAUTHBEARER is enabled."""


class _ListenerKey(NamedTuple):
    listener: str
    mechanism: str
    """In lower case; empty: of all."""
    key: str


def is_listener_key(name: str) -> bool:
    """Tell whether `name` is a key with a listener's name before it that has effect here."""
    return _parsed(name) is not None


def _parsed(name: str) -> _ListenerKey | None:
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if rest in _OF_LISTENERS:
        return _ListenerKey(listener.upper(), "", rest)
    mechanism, _, key = rest.partition(".")
    handler = mechanism == OAUTHBEARER.lower() and key == HANDLER_KEY
    if handler or (mechanism in _LOWER and key in _OF_MECHANISMS):
        return _ListenerKey(listener.upper(), mechanism, key)
    return None


def sasl_listeners(
    listeners: Sequence[Listener], values: Mapping[str, Value], overrides: Mapping[str, str]
) -> tuple[dict[str, SaslListener], list[Problem]]:
    """Return how clients of each SASL listener authenticate, by its name, and what is wrong.

    `overrides`: the keys that have a listener's name before them, as they were given.
    """
    wrong: list[Problem] = []
    given: dict[_ListenerKey, str] = {}
    for name, text in overrides.items():
        parsed = _parsed(name)
        if parsed is not None:
            given[parsed] = text
    found: dict[str, SaslListener] = {}
    for listener in listeners:
        if listener.protocol in PROTOCOLS:
            found[listener.name] = _listener(listener.name, values, given, wrong)
    return found, wrong


def unheard(listeners: Sequence[Listener], overrides: Mapping[str, str]) -> list[str]:
    """Return the keys among `overrides` that are of no SASL listener."""
    names = {listener.name for listener in listeners if listener.protocol in PROTOCOLS}
    return [
        name
        for name in overrides
        if (parsed := _parsed(name)) is not None and parsed.listener not in names
    ]


def _listener(
    name: str, values: Mapping[str, Value], given: Mapping[_ListenerKey, str], wrong: list[Problem]
) -> SaslListener:
    enabled = values[_ENABLED]
    mechanisms = enabled if isinstance(enabled, tuple) else ()
    key, own = _ENABLED, given.get(_ListenerKey(name, "", _ENABLED))
    if own is not None:
        key = _full(name, "", _ENABLED)
        mechanisms = tuple(word.strip() for word in own.split(",") if word.strip())
    strange = [word for word in mechanisms if word not in MECHANISMS]
    if strange or not mechanisms:
        reason = f"listener {name} needs some of {', '.join(MECHANISMS)}, and no others"
        wrong.append((key, ",".join(mechanisms), reason))
    passwords: Mapping[str, Secret] = {}
    reauth_ms = {}
    for mechanism in MECHANISMS:
        users = _passwords(name, mechanism, given, wrong)
        if mechanism == "PLAIN":
            passwords = users
        if mechanism in mechanisms:
            reauth_ms[mechanism] = _reauth_ms(name, mechanism, values, given, wrong)
    if "PLAIN" in mechanisms and not passwords and not wrong:
        reason = f'PLAIN is enabled and has no users: {PLAIN_MODULE} required user_NAME="PASSWORD";'
        wrong.append((_full(name, "plain", _JAAS), "…", reason))
    tokens = None
    if OAUTHBEARER in mechanisms:
        tokens = _oauthbearer(name, values, given, wrong)
    return SaslListener(mechanisms, passwords, reauth_ms, tokens)


def _oauthbearer(
    name: str, values: Mapping[str, Value], given: Mapping[_ListenerKey, str], wrong: list[Problem]
) -> OAuthBearerListener:
    mechanism = OAUTHBEARER.lower()
    handler = given.get(_ListenerKey(name, mechanism, HANDLER_KEY), HANDLERS[0])
    if handler.strip() not in HANDLERS:
        reason = f"must be {HANDLERS[0]}: tokens without a signature are never taken"
        wrong.append((_full(name, mechanism, HANDLER_KEY), handler[:200], reason))
    own = {
        key.key: text for key, text in given.items() if (key.listener, key.mechanism) == (name, "")
    }
    settings, problems = oauthbearer_listener(name, values, own)
    wrong.extend(problems)
    return settings


def _passwords(
    name: str, mechanism: str, given: Mapping[_ListenerKey, str], wrong: list[Problem]
) -> Mapping[str, Secret]:
    text = given.get(_ListenerKey(name, mechanism.lower(), _JAAS))
    if text is None:
        return {}
    module = _MODULES.get(mechanism, SCRAM_MODULE)
    try:
        line = parse_jaas(text)
        if line.module != module:
            raise ValueError(f"{mechanism} takes {module} and no other")
        if module == OAUTHBEARER_MODULE and line.options:
            raise ValueError(f"{mechanism} takes no options here: tokens are always signed")
        empty = [user for user, secret in line.passwords.items() if not (user and secret.reveal())]
        if empty:
            raise ValueError(f"user {empty[0]!r} has no name or no password")
    except ValueError as error:
        # What is there may hold secrets: it is not shown.
        wrong.append((_full(name, mechanism.lower(), _JAAS), "…", str(error)))
        return {}
    return line.passwords


def _reauth_ms(
    name: str,
    mechanism: str,
    values: Mapping[str, Value],
    given: Mapping[_ListenerKey, str],
    wrong: list[Problem],
) -> int:
    for place in (mechanism.lower(), ""):
        text = given.get(_ListenerKey(name, place, _REAUTH))
        if text is None:
            continue
        try:
            value = SaslKeys.KEYS[_REAUTH].parse(text)
        except ValueError as error:
            wrong.append((_full(name, place, _REAUTH), text, str(error)))
            return 0
        return value if isinstance(value, int) else 0
    general = values[_REAUTH]
    return general if isinstance(general, int) else 0


def _full(listener: str, mechanism: str, key: str) -> str:
    return LISTENER_PREFIX + ".".join(filter(None, (listener.lower(), mechanism, key)))

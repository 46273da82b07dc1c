"""SASL settings per listener: mechanisms, PLAIN users, this broker's logins at other brokers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headrace.config.authentication.jaas import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasLine,
    parse_jaas,
)
from headrace.config.authentication.oauthbearer import (
    HANDLERS,
    OAuthBearerListener,
    oauthbearer_listener,
)
from headrace.config.keys.oauthbearer import HANDLER
from headrace.config.keys.sasl import JAAS, MECHANISMS, OAUTHBEARER
from headrace.config.listener_keys import ListenerKey, ListenerValues
from headrace.config.listeners import SASL_PROTOCOLS, Listener
from headrace.model.secret import Secret

_ENABLED, _REAUTH = "sasl.enabled.mechanisms", "connections.max.reauth.ms"
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"
_MODULES = {"PLAIN": PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE}

Problem = tuple[str, str, str]
"""A problem of a setting: the key, its value, the reason."""


class Login(NamedTuple):
    """The user name and password of a broker at other brokers, for one mechanism."""

    user: str
    password: Secret


class SaslListener(NamedTuple):
    """The SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    """The enabled mechanisms."""
    passwords: Mapping[str, Secret] = MappingProxyType({})
    """The passwords of PLAIN users, by user name."""
    reauth_ms: Mapping[str, int] = MappingProxyType({})
    """Longest session before reauthentication, in milliseconds, by mechanism; 0: unlimited."""
    logins: Mapping[str, Login] = MappingProxyType({})
    """This broker's logins when it connects to that listener of other brokers, by mechanism."""
    oauthbearer: OAuthBearerListener | None = None
    """The checks of tokens; None if OAUTHBEARER is not enabled."""


def sasl_listeners(
    listeners: Sequence[Listener], values: ListenerValues
) -> tuple[dict[str, SaslListener], list[Problem]]:
    """Return the SASL settings of each SASL listener by its name, and the problems found."""
    wrong: list[Problem] = []
    found: dict[str, SaslListener] = {}
    for listener in listeners:
        if listener.protocol in SASL_PROTOCOLS:
            found[listener.name] = _listener(listener.name, values, wrong)
    return found, wrong


def login_problem(listener: str, mechanism: str, found: SaslListener) -> Problem | None:
    """Return why this broker cannot log in at a listener of others by `mechanism`, or None."""
    if mechanism not in found.mechanisms:
        reason = (
            f"brokers reach each other by listener {listener}, which takes"
            f" {', '.join(found.mechanisms)}: name one of these"
        )
        return (BETWEEN_BROKERS, mechanism, reason)
    if mechanism not in found.logins:
        key = ListenerKey(listener, mechanism, JAAS.name).full
        reason = (
            "brokers authenticate to each other by it, and it has no username and password:"
            f' {_module(mechanism)} required username="NAME" password="PASSWORD";'
        )
        return (key, "…", reason)
    return None


def _listener(name: str, values: ListenerValues, wrong: list[Problem]) -> SaslListener:
    mechanisms = values.words(name, _ENABLED)
    strange = [word for word in mechanisms if word not in MECHANISMS]
    if strange or not mechanisms:
        own = values.own(name, _ENABLED) is not None
        key = ListenerKey(name, "", _ENABLED).full if own else _ENABLED
        reason = f"listener {name} needs some of {', '.join(MECHANISMS)}, and no others"
        wrong.append((key, ",".join(mechanisms), reason))
    passwords: Mapping[str, Secret] = {}
    reauth_ms: dict[str, int] = {}
    logins: dict[str, Login] = {}
    said_wrong = len(wrong)
    for mechanism in MECHANISMS:
        line = _line(name, mechanism, values, wrong)
        if mechanism == "PLAIN":
            passwords = line.passwords
        user, password = line.options.get("username"), line.options.get("password")
        if user is not None and password is not None:
            logins[mechanism] = Login(user.reveal(), password)
        if mechanism in mechanisms:
            lifetime_ms = values.of(name, _REAUTH, mechanism)
            reauth_ms[mechanism] = lifetime_ms if isinstance(lifetime_ms, int) else 0
    if "PLAIN" in mechanisms and not passwords and len(wrong) == said_wrong:
        reason = f'PLAIN is enabled and has no users: {PLAIN_MODULE} required user_NAME="PASSWORD";'
        wrong.append((ListenerKey(name, "PLAIN", JAAS.name).full, "…", reason))
    tokens = None
    if OAUTHBEARER in mechanisms:
        tokens = _oauthbearer(name, values, wrong)
    return SaslListener(mechanisms, passwords, reauth_ms, logins, tokens)


def _oauthbearer(name: str, values: ListenerValues, wrong: list[Problem]) -> OAuthBearerListener:
    handler = values.own(name, HANDLER.name, OAUTHBEARER)
    if isinstance(handler, str) and handler.strip() not in HANDLERS:
        reason = f"must be {HANDLERS[0]}: tokens without a signature are never taken"
        wrong.append((ListenerKey(name, OAUTHBEARER, HANDLER.name).full, handler[:200], reason))
    settings, problems = oauthbearer_listener(name, values)
    wrong.extend(problems)
    return settings


def _line(name: str, mechanism: str, values: ListenerValues, wrong: list[Problem]) -> JaasLine:
    module = _module(mechanism)
    text = values.own(name, JAAS.name, mechanism)
    if not isinstance(text, str):
        return JaasLine(module)
    try:
        line = parse_jaas(text)
        if line.module != module:
            raise ValueError(f"{mechanism} takes {module} and no other")
        if module == OAUTHBEARER_MODULE and line.options:
            raise ValueError(f"{mechanism} takes no options here: tokens are always signed")
        empty = [user for user, secret in line.passwords.items() if not (user and secret.reveal())]
        if empty:
            raise ValueError(f"user {empty[0]!r} has no name or no password")
        if any(name in line.options and not line.options[name].reveal() for name in _OWN):
            raise ValueError("its username or its password is empty")
    except ValueError as error:
        # The line may hold secrets: it is not shown.
        wrong.append((ListenerKey(name, mechanism, JAAS.name).full, "…", str(error)))
        return JaasLine(module)
    return line


_OWN = ("username", "password")


def _module(mechanism: str) -> str:
    return _MODULES.get(mechanism, SCRAM_MODULE)

"""JAAS lines in Kafka's settings, parsed as text: no class is ever loaded by name.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

The class name in such a line could make a Kafka broker run foreign code (CVE-2023-25194); here it
must be one of three known names.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headrace.model.secret import Secret

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"
_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)"|(?P<bare>[A-Za-z0-9_$.+/-]+)|(?P<mark>[=;]))'
)
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}
_LINE_BYTES_MAX = 1 << 20


class JaasLine(NamedTuple):
    """A parsed JAAS line: a login module with its options."""

    module: str
    options: Mapping[str, Secret] = MappingProxyType({})

    @property
    def passwords(self) -> dict[str, Secret]:
        """The users of `user_NAME="password"` options, with their passwords."""
        return {
            name.removeprefix(_USER): secret
            for name, secret in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(text: str) -> JaasLine:
    """Parse a JAAS line; ValueError gives the reason and quotes nothing that may be a secret."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ("mark", ";"):
        raise ValueError("is not: MODULE required name=\"value\" …; with ';' at its end")
    (kind, module), (_, flag), *rest = tokens[:-1]
    if kind != "bare" or module not in _MODULES:
        raise ValueError(f"its login module must be one of {', '.join(_MODULES)}")
    if flag.lower() not in _FLAGS:
        raise ValueError(f"its login module must be followed by one of {', '.join(_FLAGS)}")
    if ("mark", ";") in rest:
        raise ValueError("it has more than one login module")
    options: dict[str, Secret] = {}
    while rest:
        if len(rest) < 3 or rest[1] != ("mark", "=") or rest[2][0] == "mark":
            raise ValueError('its options are not name="value"')
        (_, name), _, (_, value), *rest = rest
        if name in options:
            raise ValueError("one of its options appears more than once")
        options[name] = Secret(value)
    return JaasLine(module, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return the kind (quoted, bare, mark) and text of each token. Raises ValueError."""
    if len(text) > _LINE_BYTES_MAX:
        raise ValueError(f"is longer than {_LINE_BYTES_MAX} characters")
    tokens: list[tuple[str, str]] = []
    text, at = text.rstrip(), 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"cannot be read from character {at + 1} on")
        value = found[found.lastgroup]
        if found.lastgroup == "quoted":
            value = _ESCAPED.sub(lambda mark: _ESCAPES.get(mark[1], mark[1]), value)
        tokens.append((found.lastgroup, value))
        at = found.end()
    return tokens

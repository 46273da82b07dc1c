"""Map a certificate's subject to a user name: ssl.principal.mapping.rules (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

A pattern must match the whole subject. Patterns are the operator's, and a subject has at most
`distinguished_name.SUBJECT_CHARS_MAX` characters. Nested unbounded repetitions such as `(a+)+` are
refused: their matching time is exponential.
"""

import re
from typing import NamedTuple

from headrace.model.errors import ConfigError, HeadraceError

# A backslash escapes: `\/` in a pattern is a literal slash.
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_GROUP = re.compile(r"\$(\d)|\\(.)", re.DOTALL)
_NESTED = re.compile(r"[+*}][?+]?\)+(?:[+*]|\{\d*,\d*\})")


class NoRuleFits(HeadraceError):
    """No mapping rule matches the certificate's subject."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """The pattern; None for DEFAULT, which keeps the subject."""
    replacement: str = ""
    case: str = ""


class PrincipalMapping:
    """The mapping rules of one listener, in order."""

    def __init__(self, text: str) -> None:
        """Parse the rules of `ssl.principal.mapping.rules`. Raises ConfigError."""
        self._rules: list[_Rule] = []
        at = 0
        while text[at:].strip():
            form = _RULE.match(text, at)
            if form is None:
                raise ConfigError(_problem(text, "is not RULE:pattern/replacement/[LU] or DEFAULT"))
            self._rules.append(_Rule(None) if form["default"] else _parse(form, text))
            at = form.end()
        if not self._rules:
            self._rules.append(_Rule(None))

    def user(self, name: str) -> str:
        """Return the user name for a distinguished name. Raises NoRuleFits."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return name
            found = pattern.fullmatch(name)
            if found is None:
                continue
            user = _GROUP.sub(lambda mark: _group(found, mark), replacement)  # noqa: B023
            return user.lower() if case == "L" else user.upper() if case == "U" else user
        raise NoRuleFits(f"no rule of ssl.principal.mapping.rules fits its certificate, {name}")


def _parse(form: re.Match[str], text: str) -> _Rule:
    source = form["pattern"]
    if _NESTED.search(source):
        raise ConfigError(_problem(text, "repeats what is itself repeated: one name could take it"
                                         " for ever"))  # fmt: skip
    try:
        pattern = re.compile(source)
    except re.error as error:
        raise ConfigError(_problem(text, f"has a pattern that is none: {error}")) from None
    for group in re.findall(r"(?<!\\)\$(\d)", form["replacement"]):
        if int(group) > pattern.groups:
            raise ConfigError(_problem(text, f"has no group ${group}"))
    return _Rule(pattern, form["replacement"], form["case"])


def _group(found: re.Match[str], mark: re.Match[str]) -> str:
    return mark[2] if mark[1] is None else found[int(mark[1])] or ""


def _problem(text: str, why: str) -> str:
    return f"ssl.principal.mapping.rules={text}: {why}"

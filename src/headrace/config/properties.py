r"""Java's .properties syntax, parsed and written (java.util.Properties.load and .store).

Comments start with `#` or `!`. Key and value are separated by the first unescaped `=`, `:` or
blank. A line that ends in an odd number of backslashes continues on the next one. `\uXXXX`, `\t`,
`\n`, `\r` and `\f` stand for their characters; a backslash before any other character stands for
that character.
"""

from collections.abc import Iterator, Mapping

from headrace.model.errors import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {value: f"\\{key}" for key, value in _ESCAPES.items()} | {"\\": "\\\\"}


def parse(text: str) -> dict[str, str]:
    r"""Parse keys and values in the order of the text; the last of equal keys wins, as in Java.

    ConfigError if a `\u` escape is not followed by four hexadecimal digits.
    """
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ConfigError(f"{line}: {error}") from None
    return values


def render(values: Mapping[str, str]) -> str:
    """Return the text that `parse` reads back as `values`, one line per key."""
    return "".join(f"{_escape_key(key)}={_escape_value(values[key])}\n" for key in values)


def _logical_lines(text: str) -> Iterator[str]:
    """Yield logical lines: without comments and blank lines, continued lines joined."""
    pending: str | None = None
    # Not splitlines(): it also splits at form feeds and Unicode separators; Java does not.
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = line if pending is None else pending + line
        if _ends_in_continuation(line):
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def _ends_in_continuation(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Return key and value of a logical line, split at the first unescaped `=`, `:` or blank."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        at += 1
        if mark != "\\" or at == len(text):
            # A backslash at the very end of the file escapes nothing: Java drops it.
            parts.append(mark if mark != "\\" else "")
            continue
        mark = text[at]
        at += 1
        if mark == "u":
            parts.append(_unicode(text[at : at + 4]))
            at += 4
        else:
            parts.append(_ESCAPES.get(mark, mark))
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"\\u{digits} has not four hexadecimal digits")
    return chr(int(digits, 16))


def _escape_key(key: str) -> str:
    return "".join(f"\\{c}" if c in "=:#! " else _ESCAPED.get(c, c) for c in key)


def _escape_value(value: str) -> str:
    text = "".join(_ESCAPED.get(c, c) for c in value)
    blanks = len(text) - len(text.lstrip(" "))
    return "\\ " * blanks + text[blanks:]

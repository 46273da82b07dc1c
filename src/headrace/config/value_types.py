"""The types of configuration values, and the definition of one key: type, bounds, effect."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypedDict

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value; None: unset."""

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1


class Kind(IntEnum):
    """Types of values, numbered like Kafka's ConfigType in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Mode(Enum):
    """Whether a broker key can be altered at run time: not, per broker, or for all (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Options(TypedDict, total=False):
    """The optional fields of a `Definition`, as keyword arguments of functions that pass them."""

    at_least: float
    between: tuple[float, float]
    words: tuple[str, ...]
    form: tuple[str, str]
    check: Callable[[str], object]
    mode: Mode
    synonym: str
    ours: bool
    in_use: bool
    altered_only: bool
    coarser: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a key: type, default, allowed values, description and run-time mode."""

    name: str
    kind: Kind
    default: Value
    doc: str
    """The description: one or more sentences without a line break."""
    at_least: float | None = None
    """The least number, if there is no greatest; None: no bound."""
    between: tuple[float, float] | None = None
    """The least and the greatest number, both allowed; None: no bounds."""
    words: tuple[str, ...] = ()
    """The allowed words of a text, or of a list's elements; empty: any."""
    form: tuple[str, str] = ("", "")
    """A regular expression that the whole text must match, and its description; "": any text."""
    check: Callable[[str], object] | None = None
    """Raises ValueError for a text that a regular expression cannot refuse."""
    mode: Mode = Mode.READ_ONLY
    synonym: str | None = None
    """The broker key that gives a topic key's default; None for a broker's own key."""
    ours: bool = False
    """Whether the name is Headrace's own, not Kafka's."""
    in_use: bool = True
    """False: accepted and shown because Kafka's tools send it, without effect here."""
    altered_only: bool = False
    """Set at run time only, and shown only if it was set, as in Kafka's DynamicConfig."""
    coarser: tuple[tuple[str, int], ...] = ()
    """Keys used if this one is unset, nearest first, each with its unit in units of this key."""

    @property
    def sensitive(self) -> bool:
        """Whether the value must not appear in any response or log."""
        return self.kind is Kind.PASSWORD

    @property
    def must_be(self) -> str:
        """The allowed values in words, for the reference: `at least 1`."""
        if self.at_least is not None:
            return f"at least {self.at_least}"
        if self.between is not None:
            return f"{self.between[0]} to {self.between[1]}"
        if self.words:
            return f"{'some' if self.kind is Kind.LIST else 'one'} of {', '.join(self.words)}"
        return self.form[1]

    def parse(self, text: str) -> Value:
        """Return the value of `text`; ValueError gives the reason it is refused."""
        text = text if self.kind is Kind.PASSWORD else text.strip()
        pattern, words = self.form
        if pattern and not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"must be {words}")
        if self.check is not None:
            self.check(text)
        value = _PARSE[self.kind](text)
        problem = self._problem(value)
        if problem:
            raise ValueError(problem)
        return value

    def _problem(self, value: Value) -> str | None:
        """Return why a parsed value is outside its bounds or words, or None."""
        if isinstance(value, (int, float)):
            if self.at_least is not None and value < self.at_least:
                return f"must be at least {self.at_least}"
            if self.between is not None and not self.between[0] <= value <= self.between[1]:
                return f"must be between {self.between[0]} and {self.between[1]}"
        if not self.words:
            return None
        if isinstance(value, tuple):
            wrong = [word for word in value if word not in self.words]
            return f"{wrong[0]!r} is not one of {', '.join(self.words)}" if wrong else None
        if text_of(value) not in self.words:
            return f"must be one of {', '.join(self.words)}"
        return None


def text_of(value: Value) -> str | None:
    """Return a value as Kafka writes it: `true`, `1.5`, `a,b`; None for an unset one."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in {"true", "false"}:
        raise ValueError("must be true or false")
    return word == "true"


def _integer(bits: int) -> Callable[[str], int]:
    high = (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in {"+", "-"} else text
        # int() also accepts "1_000" and digits of other scripts; Java does not.
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("must be a whole number")
        value = int(text)
        if not -high - 1 <= value <= high:
            raise ValueError(f"must fit {bits} bits")
        return value

    return parse


def _double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if value != value:
        raise ValueError("must be a number")
    return value


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


class _Hidden(str):
    """A password's text; its repr is `***`, also inside other objects."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "***"


_PARSE: dict[Kind, Callable[[str], Value]] = {
    Kind.UNKNOWN: str,
    Kind.BOOLEAN: _boolean,
    Kind.STRING: str,
    Kind.INT: _integer(32),
    Kind.SHORT: _integer(16),
    Kind.LONG: _integer(64),
    Kind.DOUBLE: _double,
    Kind.LIST: _list,
    Kind.CLASS: str,
    Kind.PASSWORD: _Hidden,
}

"""What a configuration value can be: Kafka's types, and checks with words for what is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

Value = bool | int | float | str | tuple[str, ...] | None
Check = Callable[[Value], str | None]
"""Says what is wrong with a value of the right type, or None."""

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1


class Kind(IntEnum):
    """Types, numbered as DescribeConfigs answers them (ConfigType)."""

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
    """Whether, and for whom, a broker's key can be altered while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Definition:
    """One key: what it holds, what it is where nobody says, and what it does."""

    name: str
    kind: Kind
    default: Value
    doc: str
    """One or more sentences, without a line break."""
    check: Check | None = None
    must_be: str = ""
    """What `check` asks for, in words for the reference: `at least 1`."""
    mode: Mode = Mode.READ_ONLY
    synonym: str | None = None
    """The broker's key that is a topic key's default; None for a broker's own key."""
    ours: bool = False
    """Not one of Kafka's names."""
    in_use: bool = True
    """False: accepted and shown since Kafka's tools send it, without effect here."""

    @property
    def sensitive(self) -> bool:
        """Whether no answer and no log may show the value."""
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> Value:
        """The value that `text` stands for; ValueError says what is wrong with it."""
        value = _PARSE[self.kind](text if self.kind is Kind.PASSWORD else text.strip())
        if self.check is not None:
            problem = self.check(value)
            if problem:
                raise ValueError(problem)
        return value

    def text(self, value: Value) -> str | None:
        """The way `value` is written in files and answers; None stays None."""
        return text_of(value)


def text_of(value: Value) -> str | None:
    """A value as Kafka writes it: `true`, `1.5`, `a,b`."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def at_least(low: float) -> Check:
    """A check for a number of `low` or more."""

    def check(value: Value) -> str | None:
        small = isinstance(value, (int, float)) and value < low
        return f"must be at least {low}" if small else None

    return check


def between(low: float, high: float) -> Check:
    """A check for a number from `low` to `high`, both included."""

    def check(value: Value) -> str | None:
        outside = isinstance(value, (int, float)) and not low <= value <= high
        return f"must be between {low} and {high}" if outside else None

    return check


def one_of(*allowed: str) -> Check:
    """A check for one of some words."""

    def check(value: Value) -> str | None:
        wrong = value is not None and text_of(value) not in allowed
        return f"must be one of {', '.join(allowed)}" if wrong else None

    return check


def each_of(*allowed: str) -> Check:
    """A check for a list of some words."""

    def check(value: Value) -> str | None:
        wrong = [word for word in value if word not in allowed] if isinstance(value, tuple) else []
        if not wrong:
            return None
        return f"{wrong[0]!r} is none of {', '.join(allowed)}"

    return check


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in {"true", "false"}:
        raise ValueError("must be true or false")
    return word == "true"


def _integer(bits: int) -> Callable[[str], int]:
    high = (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in {"+", "-"} else text
        # int() would also take "1_000" and other scripts' digits: Java does not.
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
    Kind.PASSWORD: str,
}


def key(
    name: str,
    kind: Kind,
    default: Value,
    doc: str,
    *,
    at_least: float | None = None,
    between: tuple[float, float] | None = None,
    words: tuple[str, ...] = (),
    mode: Mode = Mode.READ_ONLY,
    synonym: str | None = None,
    ours: bool = False,
    in_use: bool = True,
) -> Definition:
    """A definition in one call; at most one of `at_least`, `between` and `words`."""
    check, must_be = _check(kind, at_least, between, words)
    return Definition(
        name, kind, default, doc, check, must_be, mode, synonym, ours=ours, in_use=in_use
    )


def _check(
    kind: Kind,
    low: float | None,
    span: tuple[float, float] | None,
    words: tuple[str, ...],
) -> tuple[Check | None, str]:
    if low is not None:
        return at_least(low), f"at least {low}"
    if span is not None:
        return between(*span), f"{span[0]} to {span[1]}"
    if words and kind is Kind.LIST:
        return each_of(*words), f"some of {', '.join(words)}"
    if words:
        return one_of(*words), f"one of {', '.join(words)}"
    return None, ""

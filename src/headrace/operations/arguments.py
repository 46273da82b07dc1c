"""Typed arguments of registered operations, read from JSON; results written as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

from headrace.operations.tags import Tag

R = TypeVar("R")
A = TypeVar("A", bound="Arguments[Any]")


class Arguments(Generic[R]):
    """The arguments of one operation whose result is an R; a subclass is a frozen dataclass.

    A field whose default is None is optional: in a change None leaves the value as it is, in a list
    it does not filter.
    """

    OPERATION: ClassVar[str]
    """The operation's name in administrators' tools and in the audit log."""
    MUTATES: ClassVar[bool] = True
    """Whether the operation changes something: it requires ALTER on the cluster and is audited."""
    SECRETS: ClassVar[frozenset[str]] = frozenset()
    """Fields whose values no log shows."""
    TAG: ClassVar[Tag] = Tag.ADMINISTRATOR
    """The tag of users that allows the operation by the management API."""
    RETURNS_JSON: ClassVar[bool] = True
    """Whether the result is a JSON value; otherwise typed calls alone are answered."""


def given(arguments: Arguments[Any]) -> dict[str, object]:
    """Return the fields that differ from their defaults, by name."""
    values = {each.name: getattr(arguments, each.name) for each in fields(_dataclass(arguments))}
    unset = {each.name: each.default for each in fields(_dataclass(arguments))}
    return {name: value for name, value in values.items() if value not in (unset[name], {})}


def public_fields(kind: type[Arguments[Any]]) -> frozenset[str]:
    """Return the names of the fields that logs show."""
    return frozenset(name for name, _, _ in _plan(kind)) - kind.SECRETS


def decode(kind: type[A], question: Mapping[str, Any]) -> A:
    """Return the arguments from a JSON object; fields that the class does not have are ignored.

    KeyError: a required field is missing. ValueError: a value has another type.
    """
    values = {}
    for name, checked, required in _plan(kind):
        if name in question:
            values[name] = checked(name, question[name])
        elif required:
            raise KeyError(name)
    return kind(**values)


def encode(result: object) -> Any:  # noqa: ANN401 - a value of JSON
    """Return a result as a JSON value: a NamedTuple becomes an object, but not one nested in it."""
    if isinstance(result, list):
        return [encode(each) for each in result]
    return result._asdict() if isinstance(result, tuple) and hasattr(result, "_asdict") else result


def _text(word: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{word} {value!r} is no text")
    return value


def _flag(word: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{word} is true or false, not {value!r}")
    return value


def _number(word: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{word} is a number, not {value!r}")
    return value


def _texts(word: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{word} is a list of texts, not {value!r}")
    return tuple(_text(word, each) for each in value)


def _numbers(word: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{word} is a list of numbers, not {value!r}")
    return tuple(_number(word, each) for each in value)


def _object(word: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{word} are an object of JSON, not {value!r}")
    return value


Checked = Callable[[str, object], object]
_CHECKS: dict[object, Checked] = {
    str: _text,
    str | None: _text,
    bool: _flag,
    bool | None: _flag,
    int | None: _number,
    tuple[str, ...] | None: _texts,
    tuple[int, ...]: _numbers,
    Mapping[str, object]: _object,
}
"""By a field's type: the function that checks a JSON value and converts it to that type."""


def _plan(kind: type[Arguments[Any]]) -> tuple[tuple[str, Checked, bool], ...]:
    """Return each field's name, its check, and whether it is required."""
    types = get_type_hints(kind)
    return tuple(
        (
            field.name,
            _CHECKS[types[field.name]],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(_dataclass(kind))
    )


def _dataclass(kind: Any) -> Any:  # noqa: ANN401 - a subclass, which is a dataclass
    return kind

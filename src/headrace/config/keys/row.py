"""Declaration of keys as class attributes: `log_segment_bytes = key(…)` is `log.segment.bytes`.

The rows of an area are one class; `config.broker.BrokerConfig` inherits from all of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar, Unpack, cast

from headrace.config.value_types import LONG_MAX, Definition, Kind, Options, Value

T = TypeVar("T")


class Keys:
    """Settings as attributes; a subclass declares them, one row each."""

    KEYS: ClassVar[Mapping[str, Definition]] = {}
    """The rows by key name, those of base classes included."""

    def __init_subclass__(cls) -> None:
        """Collect the rows in `KEYS` and name each after its attribute."""
        keys: dict[str, Definition] = {}
        for base in cls.__bases__:
            keys.update(getattr(base, "KEYS", {}))
        for name, row in list(vars(cls).items()):
            if isinstance(row, Definition):
                keys[key_name(name)] = replace(row, name=key_name(name))
                # An instance attribute is read more slowly if the class has one of that name.
                delattr(cls, name)
        cls.KEYS = keys

    def __init__(self, **values: Value) -> None:
        """Set every attribute to its value in `values` (by attribute name), or to its default."""
        defaults = {attribute(name): row.default for name, row in self.KEYS.items()}
        if not values.keys() <= defaults.keys():
            raise TypeError(f"no such attributes: {sorted(values.keys() - defaults.keys())}")
        # Not by vars(self): attributes are read more slowly once an object's dict was accessed.
        for name, value in (defaults | values).items():
            setattr(self, name, value)

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Self:
        """Return this area's settings from all values by key (`BrokerConfig.values`)."""
        return cls(**{attribute(name): values[name] for name in cls.KEYS})


def key(kind: Kind, default: T, doc: str, **options: Unpack[Options]) -> T:
    """Declare a key whose attribute has the type of its default."""
    return cast(T, Definition("", kind, cast(Value, default), doc, **options))


def combined(kind: Kind, default: Value, doc: str, **options: Unpack[Options]) -> Any:  # noqa: ANN401
    """Declare a key whose attribute `cross_key_rules` computes, with the type annotated there."""
    return Definition("", kind, default, doc, **options)


def attribute(name: str) -> str:
    """Return the attribute of key `name`: `log.segment.bytes` → `log_segment_bytes`."""
    return name.replace(".", "_")


def key_name(name: str) -> str:
    """Return the key of attribute `name`: `log_segment_bytes` → `log.segment.bytes`."""
    return name.replace("_", ".")


def stand_in(definition: Definition, values: Mapping[str, Value]) -> Value:
    """Return the value of the nearest coarser key that is set, in this key's unit, or None.

    A negative value (-1: no bound) is returned unchanged.
    """
    for coarser, factor in definition.coarser:
        value = values[coarser]
        if isinstance(value, int):
            return value if value < 0 else min(value * factor, LONG_MAX)
    return None

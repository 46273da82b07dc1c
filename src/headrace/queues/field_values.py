"""Values of field tables: their types' names in RabbitMQ, equality, and their texts.

The small types of the decoder (`Long`, `Timestamp`, ...) are known here only by their names. As in
RabbitMQ, equality is about values and not types: an integer of 8 bits equals one of 64.
"""

from collections.abc import Hashable, Mapping
from typing import cast

_KINDS = {
    "bool": "bool",
    "float": "double",
    "str": "longstr",
    "bytes": "longstr",
    "dict": "table",
    "list": "array",
    "tuple": "array",
    "NoneType": "void",
    "Int8": "byte",
    "UInt8": "unsignedbyte",
    "Int16": "short",
    "UInt16": "unsignedshort",
    "UInt32": "unsignedint",
    "Long": "long",
    "Timestamp": "timestamp",
    "Float32": "float",
    "ByteArray": "binary",
    "Decimal": "decimal",
}
"""RabbitMQ's names of types, by the names of Python's types and of the decoder's."""
INTEGER_KINDS = frozenset(
    {"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint"}
)
_INT32 = range(-(1 << 31), 1 << 31)


def kind_of(value: object) -> str:
    """Return RabbitMQ's name of a decoded value's type: `longstr`, `signedint`, ..."""
    name = type(value).__name__
    if name == "int":
        return "signedint" if value in _INT32 else "long"
    return _KINDS[name]


def comparable(value: object) -> Hashable:
    """Return a hashable that is equal for two values exactly if RabbitMQ treats them as equal.

    True, 1 and 1.0 are three values. Integers of all widths are equal, and so are all types of
    strings.
    """
    match value:
        case str():
            return value
        case bytes():
            return str(value, "utf-8", "surrogateescape")
        case bool():
            return "bool", value
        case int():
            return int(value)
        case float():
            return "float", float(value)
        case None:
            return ("void",)
        case Mapping():
            return "table", tuple((name, *_typed(item)) for name, item in value.items())
        case tuple() if kind_of(value) == "decimal":
            return "decimal", *value
    return "array", tuple(_typed(item) for item in cast("list[object]", value))


def _typed(value: object) -> tuple[str, Hashable]:
    return kind_of(value), comparable(value)


def table_identity(table: Mapping[str, object]) -> Hashable:
    """Return a hashable that identifies a table by fields, types and values, in any order."""
    return tuple(sorted((name, *_typed(value)) for name, value in table.items())) if table else ()


def term(value: object) -> str:
    """Return a value as an Erlang term, as in RabbitMQ's texts: `<<"text">>`, `true`, `10`."""
    match value:
        case str() | bytes():
            return f'<<"{text(value)}">>'
        case bool():
            return "true" if value else "false"
        case int() | float():
            return text(value)
        case None:
            return "undefined"
        case Mapping():
            fields = (
                f'{{<<"{name}">>,{kind_of(item)},{term(item)}}}' for name, item in value.items()
            )
            return f"[{','.join(fields)}]"
        case tuple() if kind_of(value) == "decimal":
            return f"{{{value[0]},{value[1]}}}"
    items = (f"{{{kind_of(item)},{term(item)}}}" for item in cast("list[object]", value))
    return f"[{','.join(items)}]"


def text(value: object) -> str:
    """Return a value as RabbitMQ's texts show it between quotes; strings unchanged."""
    match value:
        case str():
            return value
        case bytes():
            return str(value, "utf-8", "replace")
        case bool():
            return term(value)
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
    return term(value)

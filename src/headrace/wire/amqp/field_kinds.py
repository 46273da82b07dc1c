"""The kinds of a method's fields, and the decorator that makes a named tuple a method.

A field is annotated with its kind; type checkers see the Python type behind it.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeVar

from headrace.wire.amqp.field_table import FieldTable

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
Bit = Annotated[bool, "bit"]
ShortString = Annotated[str, "shortstr"]
LongString = Annotated[bytes, "longstr"]
Table = Annotated[FieldTable, "table"]

NO_ARGUMENTS: FieldTable = {}
"""The default of a table. Nobody changes it: what decodes makes a table of its own."""


class MethodId(NamedTuple):
    class_id: int
    method_id: int


METHODS: dict[MethodId, type] = {}
"""Every method by its ids."""
IDS: dict[type, MethodId] = {}
"""Every method's ids."""

_Method = TypeVar("_Method", bound=type)


def method(class_id: int, method_id: int) -> Callable[[_Method], _Method]:
    """Register a named tuple as the method of these ids."""

    def register(fields: _Method) -> _Method:
        ids = MethodId(class_id, method_id)
        METHODS[ids] = fields
        IDS[fields] = ids
        return fields

    return register

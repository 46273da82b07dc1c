"""The field types of AMQP methods, and the decorator that registers a named tuple as a method.

A field's annotation names its AMQP type; type checkers see the Python type.
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
"""The default of a table field. Never modified: decoding creates a new table."""


class MethodId(NamedTuple):
    class_id: int
    method_id: int


METHODS: dict[MethodId, type] = {}
"""Method classes by class id and method id."""
IDS: dict[type, MethodId] = {}
"""Class id and method id by method class."""

_Method = TypeVar("_Method", bound=type)


def method(class_id: int, method_id: int) -> Callable[[_Method], _Method]:
    """Register a named tuple as the method with these ids."""

    def register(fields: _Method) -> _Method:
        ids = MethodId(class_id, method_id)
        METHODS[ids] = fields
        IDS[fields] = ids
        return fields

    return register

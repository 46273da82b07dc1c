"""Values of a typed topic: the options of `consume` and `query`, and how `consume` prints them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.terminal.failure import CommandError, UsageError, check_installed
from headrace.terminal.record_formats import Formatter, json_line

if TYPE_CHECKING:
    from headrace.arrow.typed.field_texts import FieldTexts
    from headrace.arrow.typed.typed_rows import RefusedRecordError, TypedValues

DDL_HELP = "Decode JSON values by a schema in Spark's DDL, such as 'id BIGINT, at TIMESTAMP'."
ValueMode = Annotated[
    Literal["failfast", "permissive", "dropmalformed"] | None,
    Parameter(
        name="--mode",
        help="With --value-schema: a value that does not fit ends the command (failfast, the"
        " default), has null fields (permissive) or is left out (dropmalformed).",
    ),
]
Line = Callable[[TopicPartition, Record, bytes | None], bytes]
"""Returns the printed text of a record with this value."""


def typed_values(ddl: str, mode: str | None, columns: Sequence[str]) -> "TypedValues":
    """Return how values are decoded. `columns`: names of the record that the rows have, too.

    Raises UsageError, or CommandError if a package is missing.
    """
    check_installed("pyarrow", "numpy", packages=("pyarrow", "numba", "numpy"))
    from headrace.arrow.typed.typed_rows import Mode, TypedValues
    from headrace.typed.ddl import SchemaError

    try:
        return TypedValues(ddl, Mode(mode or "failfast")).checked(columns)
    except SchemaError as error:
        raise UsageError(f"--value-schema: {error}") from None


def refused_line(error: "RefusedRecordError") -> str:
    """Return the error about a value that ends a command."""
    return f"{error}; see --mode, or headrace consume without --value-schema"


def typed_formatter(typed: "TypedValues", text: Formatter | None) -> Formatter:
    """Return the formatter of decoded values: by `text`, or as lines of JSON without one."""
    if text is None:
        return _TypedFormatter(typed, json_line)
    return _TypedFormatter(
        typed, lambda where, record, value: text(where, record._replace(value=value))
    )


class _TypedFormatter(Formatter):
    """Prints the fields of the schema in JSON; a tombstone has no value."""

    def __init__(self, typed: "TypedValues", line: Line) -> None:
        super().__init__(lambda where, record: b"".join(t for t, _ in self.pieces(where, [record])))
        self._typed = typed
        self._line = line
        self._partitions: dict[TopicPartition, FieldTexts] = {}

    def pieces(
        self, where: TopicPartition, records: Sequence[Record]
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the text of each record, empty if its value is left out.

        Raises CommandError at a value that ends the command, after the records before it.
        """
        from headrace.arrow.typed.typed_rows import RefusedRecordError

        offsets, values = [each.offset for each in records], [each.value for each in records]
        try:
            texts = self._partition(where).of(offsets, values)
        except RefusedRecordError as error:
            before = [record for record in records if record.offset < error.offset]
            if before:
                yield from self.pieces(where, before)
            raise CommandError(refused_line(error)) from None
        for record in records:
            if record.value is None:
                yield self._line(where, record, None), 1
            elif record.offset in texts:
                yield self._line(where, record, texts[record.offset]), 1
            else:
                yield b"", 1

    def _partition(self, where: TopicPartition) -> "FieldTexts":
        from headrace.arrow.typed.field_texts import FieldTexts

        if where not in self._partitions:
            self._partitions[where] = FieldTexts(self._typed, str(where))
        return self._partitions[where]

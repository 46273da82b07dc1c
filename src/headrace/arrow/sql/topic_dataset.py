"""A topic as a dataset for DuckDB: scanned by column, repeatedly, as a stream."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.arrow.read.columns import HEADERS, TYPES
from headrace.arrow.sql.topic_source import OpenTopic
from headrace.arrow.typed.typed_rows import PREFIX, Mode, TypedRanges, TypedValues
from headrace.model.errors import HeadraceError

_DECODED = frozenset({"value", "offset", "partition"})
"""Columns that are read to decode values, and to name the record of a refused one."""
COLUMNS = ("key", "value", "partition", "offset", "timestamp", HEADERS)
"""The columns of a record in SQL."""

_TEXT_HEADER = pa.struct([("key", pa.string()), ("value", pa.string())])
_TEXT_TYPES = {
    "key": pa.string(),
    "value": pa.string(),
    HEADERS: pa.list_(
        pa.field("element", pa.struct([("key", pa.string()), ("value", pa.string())]))
    ),
}
"""Types of byte columns when read as strings."""


class NotText(HeadraceError):
    """Bytes that were to be read as a string are not UTF-8."""


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """A pyarrow dataset of a topic that implements `scanner` only, which is what DuckDB calls."""

    def __init__(
        self, topic: OpenTopic, *, as_text: frozenset[str], typed: TypedValues | None = None
    ) -> None:
        """Create the dataset of an open topic.

        `as_text`: which of key, value and headers are read as strings. `typed`: how values are
        decoded to further columns, whose names differ from the record's.
        """
        self._topic = topic
        self._typed_values = typed
        self._types = {
            name: _TEXT_TYPES[name] if name in as_text else TYPES[name] for name in COLUMNS
        }
        self.fields = [] if typed is None else typed.schema(()).names
        """Names of the columns that values are decoded to."""
        if typed is not None:
            self._types |= {field.name: field.type for field in typed.schema(())}
        self.failure: BaseException | None = None
        """The exception that ended a scan, as DuckDB passes on only its text; None if none did."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of a record, with the columns that its value is decoded to."""
        return self._schema((*COLUMNS, *self.fields))

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(name, self._types[name]) for name in columns])

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **_: object  # noqa: A002, ANN401 - pyarrow's names
    ) -> ds.Scanner:  # fmt: skip
        """Start reading these columns, with the rows that match the expression `filter`."""
        every = (*COLUMNS, *self.fields)
        wanted = list(every if columns is None else columns)
        condition = "" if filter is None else str(filter)
        needed = [name for name in every if name in wanted or name in condition] or ["offset"]
        schema = self._schema(needed)
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(needed, schema))
        return ds.Scanner.from_batches(reader, columns=wanted, filter=filter)

    def _batches(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._records(columns):
                yield self._typed(batch, schema)
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _records(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, values decoded if any needs it.

        With a mode that leaves rows out, or ends at one, all queries see the same rows: then values
        are decoded for every scan.
        """
        typed, ranges = self._typed_values, self._topic.ranges
        if typed is None or (typed.mode is Mode.PERMISSIVE and not {*columns} & {*self.fields}):
            yield from self._topic.read(columns, ranges)
            return
        own = [name for name in COLUMNS if name in columns]
        read = [name for name in COLUMNS if name in own or name in _DECODED]
        decoders: dict[int, TypedRanges] = {}
        for batch in self._topic.read(read, ranges):
            if not batch.num_rows:
                continue
            partition = batch.column("partition")[0].as_py()
            if partition not in decoders:
                place = f"{self._topic.topic}-{partition}"
                decoders[partition] = TypedRanges(typed, own, place)
            for rows in decoders[partition].rows([batch]):
                names = [name if name in self.fields else PREFIX + name for name in columns]
                yield pa.RecordBatch.from_arrays([rows.column(name) for name in names], columns)

    def _typed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        arrays = []
        for field, array in zip(schema, batch.columns, strict=True):
            try:
                arrays.append(array if array.type == field.type else array.cast(field.type))
            except pa.ArrowInvalid:
                raise NotText(
                    f"{self._topic.topic}: there is a {field.name} that is no UTF-8; take them as"
                    " bytes with --binary"
                ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def is_text(array: pa.Array, name: str) -> bool:
    """Return whether all bytes of a column are UTF-8."""
    try:
        array.cast(_TEXT_TYPES[name])
    except pa.ArrowInvalid:
        return False
    return True

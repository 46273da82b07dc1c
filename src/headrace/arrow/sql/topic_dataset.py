"""A topic as DuckDB scans it: column by column, as often as it likes, never the whole at once."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.arrow.read.columns import HEADERS, TYPES
from headrace.arrow.sql.topic_source import OpenTopic
from headrace.model.errors import HeadraceError

COLUMNS = ("key", "value", "partition", "offset", "timestamp", HEADERS)
"""What a record has in SQL."""

_TEXT_HEADER = pa.struct([("key", pa.string()), ("value", pa.string())])
_TEXT_TYPES = {
    "key": pa.string(),
    "value": pa.string(),
    HEADERS: pa.list_(
        pa.field("element", pa.struct([("key", pa.string()), ("value", pa.string())]))
    ),
}
"""Of columns that hold bytes, where they are read as text."""


class NotText(HeadraceError):
    """Bytes that were to be text are not UTF-8."""


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """What pyarrow calls a dataset, made for its `scanner` alone: that is what DuckDB asks."""

    def __init__(self, topic: OpenTopic, *, as_text: frozenset[str]) -> None:
        """`as_text`: which of key, value and headers are read as text."""
        self._topic = topic
        self._types = {
            name: _TEXT_TYPES[name] if name in as_text else TYPES[name] for name in COLUMNS
        }
        self.failure: BaseException | None = None
        """What ended a scan: DuckDB has only its text."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of a record."""
        return self._schema(COLUMNS)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([(name, self._types[name]) for name in columns])

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **_: object  # noqa: A002, ANN401 - pyarrow's names
    ) -> ds.Scanner:  # fmt: skip
        """Begin to read: of these columns, the rows that `filter`, an expression, lets through."""
        wanted = list(COLUMNS if columns is None else columns)
        condition = "" if filter is None else str(filter)
        needed = [name for name in COLUMNS if name in wanted or name in condition] or ["offset"]
        schema = self._schema(needed)
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(needed, schema))
        return ds.Scanner.from_batches(reader, columns=wanted, filter=filter)

    def _batches(self, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._topic.read(columns, self._topic.ranges):
                yield self._typed(batch, schema)
        except BaseException as error:
            self.failure = self.failure or error
            raise

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
    """Tell whether the bytes of a column are UTF-8."""
    try:
        array.cast(_TEXT_TYPES[name])
    except pa.ArrowInvalid:
        return False
    return True

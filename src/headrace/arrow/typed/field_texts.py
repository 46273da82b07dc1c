"""`FieldTexts`: values of a typed topic as the JSON of their fields, for printing."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.arrow.typed.json_encoder import JsonEncoder
from headrace.arrow.typed.typed_rows import OFFSET, VALUE, TypedRanges, TypedValues


class FieldTexts:
    """Decodes values of one partition, and writes the schema's fields in its order."""

    def __init__(self, typed: TypedValues, place: str) -> None:
        self._ranges = TypedRanges(typed, (OFFSET,), place)
        self._encoder = JsonEncoder(typed.row_type())

    def of(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> dict[int, bytes]:
        """Return the JSON of each record's fields by its offset, without those that are left out.

        The fields of a record without a value are null. Raises RefusedRecordError.
        """
        batch = pa.record_batch(
            {VALUE: pa.array(values, pa.binary()), OFFSET: pa.array(offsets, pa.int64())}
        )
        (rows,) = self._ranges.rows([batch])
        fields = pa.StructArray.from_arrays(rows.columns[:-1], rows.schema.names[:-1])
        texts: list[bytes] = self._encoder.encode(fields).to_pylist()
        return dict(zip(rows.column(-1).to_pylist(), texts, strict=True))

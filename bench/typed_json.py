"""JSON to Arrow columns: the kernel, msgspec and DuckDB in turn, rows per second of CPU time.

`python -m bench.typed_json [ROWS] [SHARE OF MALFORMED]`. Rows have seven fields, of them an ISO
time and a double of 17 digits; 1 % of the doubles are null and 1 % of the strings missing. Ten
rounds of all candidates in turn, the best of each: a loaded machine slows all of a round.
"""

import sys
import time
from collections.abc import Callable
from datetime import datetime

import duckdb
import msgspec
import pyarrow as pa

from bench.json_lines import DDL, lines
from headrace.arrow.typed.json_decoder import JsonDecoder

DUCKDB_TYPES = (
    '{"id":"BIGINT","ts":"TIMESTAMPTZ","user":"VARCHAR","path":"VARCHAR","status":"INTEGER",'
    '"amount":"DOUBLE","ok":"BOOLEAN"}'
)
BATCH_ROWS, ROUNDS = 20_000, 10
Decode = Callable[[pa.Array], int]


class Row(msgspec.Struct):
    """A row, as msgspec decodes it."""

    id: int | None = None
    ts: datetime | None = None
    user: str | None = None
    path: str | None = None
    status: int | None = None
    amount: float | None = None
    ok: bool | None = None


def by_kernel() -> Decode:
    """Return the kernel's row count of a batch."""
    decoder = JsonDecoder(DDL)

    def decode(values: pa.Array) -> int:
        count = 0
        for found in decoder.decode(values):
            for refused in found.refused:
                str(refused.words)
            count += found.batch.num_rows
        return count

    return decode


def by_msgspec() -> Decode:
    """Return msgspec's: records to objects, objects to columns."""
    decoder = msgspec.json.Decoder(Row)
    names = Row.__struct_fields__
    schema = JsonDecoder(DDL).arrow_schema

    def decode(values: pa.Array) -> int:
        rows = []
        for value in values.to_pylist():
            try:
                rows.append(decoder.decode(value))
            except msgspec.DecodeError as why:
                str(why)
        columns = [
            pa.array([getattr(row, name) for row in rows], kind)
            for name, kind in zip(names, schema.types, strict=True)
        ]
        return int(pa.RecordBatch.from_arrays(columns, schema=schema).num_rows)

    return decode


def by_duckdb() -> Decode:
    """Return DuckDB's; a malformed record ends the query, so it is looked at first."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")

    def decode(values: pa.Array) -> int:
        batch = pa.table({"value": values.cast(pa.string())})
        connection.register("batch", batch)
        query = (
            f"SELECT unnest(from_json(value, '{DUCKDB_TYPES}')) FROM batch WHERE json_valid(value)"
        )
        return int(connection.sql(query).to_arrow_table().num_rows)

    return decode


def main(count: int, malformed: float) -> None:
    """Print a line for each candidate."""
    records = lines(count, malformed)
    batches = [
        pa.array(records[at : at + BATCH_ROWS], pa.binary()) for at in range(0, count, BATCH_ROWS)
    ]
    size = sum(map(len, records)) // count
    print(f"{count:,} rows of {size} bytes, {malformed:.0%} malformed, {BATCH_ROWS:,} a batch")
    candidates = {"kernel": by_kernel(), "msgspec": by_msgspec(), "duckdb": by_duckdb()}
    best, rows = dict.fromkeys(candidates, float("inf")), dict.fromkeys(candidates, 0)
    for _ in range(ROUNDS):
        for name, decode in candidates.items():
            begun = time.process_time()
            rows[name] = sum(map(decode, batches))
            best[name] = min(best[name], time.process_time() - begun)
    for name in candidates:
        print(f"{name:8} {count / best[name] / 1e6:5.2f} M rows/cpu-s, {rows[name]:,} decoded")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        int(arguments[0]) if arguments else 200_000,
        float(arguments[1]) if len(arguments) > 1 else 0.0,
    )

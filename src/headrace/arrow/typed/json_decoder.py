"""Decode a typed topic's values to RecordBatches, and say why others are refused."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.arrow.typed.arrow_types import arrow_schema
from headrace.arrow.typed.assemble_rows import assemble_rows
from headrace.arrow.typed.decoder import TypedRows
from headrace.kernels.choose import numba_unwanted, typed_decoder
from headrace.kernels.json.layout import SLACK, UNKNOWN_NAMES, UNKNOWN_WORDS, Head, Name
from headrace.kernels.json.program import Node, Program
from headrace.model.invariant import invariant
from headrace.typed.ddl import parse_ddl
from headrace.typed.plain import decode_record
from headrace.typed.refusal import Fault, Refusal
from headrace.typed.types import ColumnType

Array = np.ndarray[Any, Any]

ARENA_BYTES = 32 << 20
"""Output memory for the values that are decoded at once; a larger record gets up to twice what it
needs."""
_GROWTH_MAX = 16
"""Bytes of output for each byte of input that are provided for; few records need more."""
UNKNOWN_NAMES_MAX = 100
"""Names of undeclared keys that are counted each."""
FAULTS = {int(fault): fault for fault in Fault}
_NO_BYTES = np.frombuffer(b"", np.uint8)


class RefusedValue(NamedTuple):
    """A refused value: the number of its record in the input, and why."""

    row: int
    refusal: Refusal
    words: str

    @property
    def path(self) -> str:
        """The path of the refused field; empty if the whole value is."""
        return self.refusal.path


@dataclass(frozen=True)
class JsonRows(TypedRows):
    """Decoded values in JSON."""

    refused: "RefusedValues"


class RefusedValues:
    """Refused values of a JSON array, worded as they are iterated: a caller may need their number
    only.

    Keeps the array's memory alive.
    """

    def __init__(self, nodes: list[Node], source: Array, offsets: Array, refused: Array) -> None:
        self._nodes = nodes
        self._source = source
        self._offsets = offsets
        self._refused = refused

    def __len__(self) -> int:
        return len(self._refused)

    def numbers(self) -> Array:
        """Return the records' numbers, without words."""
        return self._refused[:, 0]

    def __iter__(self) -> Iterator[RefusedValue]:
        nodes, data = self._nodes, memoryview(self._source.data)
        numbers = self._refused[:, 0]
        begins, ends = self._offsets[numbers].tolist(), self._offsets[numbers + 1].tolist()
        found = zip(self._refused.tolist(), begins, ends, strict=True)
        for (row, fault, node, at), begin, end in found:
            column = nodes[node]
            refusal = Refusal(FAULTS[fault], column.path if fault >= Fault.TYPE else "", at)
            yield RefusedValue(row, refusal, refusal.words(data[begin:end].tobytes(), column.type))


class JsonDecoder:
    """Decodes JSON by a schema. Records without a value give no row and are not refused.

    Decoders are not shared between threads.
    """

    def __init__(self, schema: ColumnType | str) -> None:
        self.schema = parse_ddl(schema) if isinstance(schema, str) else schema
        self.arrow_schema = arrow_schema(self.schema)
        self.unknown_keys = 0
        """Keys, of all records so far, that the schema does not declare."""
        self.unknown_names: Counter[str] = Counter()
        """The same by name, for at most UNKNOWN_NAMES_MAX names. Without numba none is counted."""
        self._program = Program(self.schema)
        self._kernel = None if numba_unwanted() else typed_decoder()
        # Of a MAP's key and value, which have one path, the value is the later node.
        self._numbers = {node.path: number for number, node in enumerate(self._program.nodes)}

    def decode(self, values: pa.Array) -> Iterator[JsonRows]:
        """Decode an array of type `binary`."""
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        if self._kernel is None:
            if len(values):
                yield self._decode_plainly(values)
            return
        _, offset_buffer, data = values.buffers()
        if not len(values):
            return
        offsets = np.frombuffer(offset_buffer, np.int32)[values.offset :][: len(values) + 1]
        source = np.frombuffer(data, np.uint8) if data is not None else _NO_BYTES
        present = _NO_BYTES
        if values.null_count:
            present = values.is_valid().cast(pa.uint8()).to_numpy()
        # The kernel is compiled for each kind of array: here for such as cannot be written to.
        for array in (offsets, source, present):
            array.flags.writeable = False
        for first, last in self._pieces(offsets):
            yield from self._decode_piece(source, offsets, present, first, last)

    def _pieces(self, offsets: Array) -> Iterator[tuple[int, int]]:
        """Yield ranges of records whose output fits the arena, by all likelihood."""
        bound = int(ARENA_BYTES / min(self._program.bytes_per_byte, _GROWTH_MAX))
        first, count = 0, len(offsets) - 1
        while first < count:
            until = int(np.searchsorted(offsets, int(offsets[first]) + bound, "right")) - 1
            last = min(max(until, first + 1), count)
            yield first, last
            first = last

    def _decode_piece(
        self, source: Array, offsets: Array, present: Array, first: int, last: int
    ) -> Iterator[JsonRows]:
        """Decode a piece, in several parts if the arena has no memory for all of it."""
        while first < last:
            needs = self._program.needs_within(int(offsets[last] - offsets[first]), ARENA_BYTES)
            until, rows, full = self._decode_part(source, offsets, present, (first, last), needs)
            while until == first:
                # The arena is too small for the first record alone: it gets twice the memory.
                most = self._program.needs_max(int(offsets[first + 1] - offsets[first]))
                needs = [min(need, bound) for need, bound in zip(needs, most, strict=True)]
                invariant(needs[full] < most[full], "a record has at most as much text as bytes")
                needs[full] = min(2 * needs[full], most[full])
                part = first, first + 1
                until, rows, full = self._decode_part(source, offsets, present, part, needs)
            yield rows
            first = until

    def _decode_part(
        self, source: Array, offsets: Array, present: Array, part: tuple[int, int], needs: list[int]
    ) -> tuple[int, JsonRows, int]:
        """Return the record before which the kernel stopped, the rows up to it, and what it lacked
        memory for."""
        program, (first, last) = self._program, part
        begin, end = int(offsets[first]), int(offsets[last])
        out, scratch = program.arena(last - first, end - begin, needs)
        longest = int(np.diff(offsets[first : last + 1]).max()) if program.has_maps else 0
        work = program.work(longest)
        work[Head.SCRATCH] = scratch
        rows, refused = np.empty(last - first, np.int64), np.empty((last - first, 4), np.int64)
        # Records that end near the source's end are read from a copy that has slack.
        middle = int(np.searchsorted(offsets[first : last + 1], len(source) - SLACK, "right"))
        middle = min(max(first + middle - 1, first), last)
        tail = _NO_BYTES
        if middle < last:
            tail_begin = int(offsets[middle])
            tail = np.zeros(end - tail_begin + SLACK, np.uint8)
            tail[: end - tail_begin] = source[tail_begin:end]
            tail.flags.writeable = False
        count = 0
        for data, base, at, until in (
            (source, 0, first, middle),
            (tail, int(offsets[middle]), middle, last),
        ):
            if at < until and work[Head.STOPPED] < 0 and self._kernel is not None:
                count = self._kernel(
                    data, offsets[at : until + 1], base, at, present[at:until], program.rows,
                    program.names, work, out, rows, refused, count,
                )  # fmt: skip
        if work[Head.UNKNOWN]:
            self.unknown_keys += int(work[Head.UNKNOWN])
            self._count_names(work)
        batch = assemble_rows(program, work, out, self.arrow_schema)
        refusals = RefusedValues(program.nodes, source, offsets, refused[:count])
        stopped = int(work[Head.STOPPED])
        full = program.full_need(work) if stopped >= 0 else 0
        decoded = JsonRows(batch, rows[: batch.num_rows], refusals)
        return (last if stopped < 0 else stopped), decoded, full

    def _count_names(self, work: Array) -> None:
        first = int(work[Head.UNKNOWN_NAMES])
        table = work[first : first + UNKNOWN_NAMES * UNKNOWN_WORDS].reshape(-1, UNKNOWN_WORDS)
        stopped = work[Head.STOPPED] >= 0
        for entry in table[table[:, Name.NODE] > 0]:
            node, size, count, record, added = (int(number) for number in entry[: Name.BYTES])
            # The keys of a record that is decoded again count then.
            if not stopped or record != work[Head.FIRST_SERIAL]:
                count += added
            if not count:
                continue
            text = entry[Name.BYTES :].tobytes()[:size].decode("utf-8", "replace")
            above = self._program.nodes[node - 1].path
            name = f"{above}.{text}" if above else text
            if name in self.unknown_names or len(self.unknown_names) < UNKNOWN_NAMES_MAX:
                self.unknown_names[name] += count

    def _decode_plainly(self, values: pa.Array) -> JsonRows:
        decoded, rows, refused = [], [], []
        texts = values.to_pylist()
        for number, value in enumerate(texts):
            if value is None:
                continue
            row = decode_record(value, self.schema)
            if isinstance(row, Refusal):
                refused.append((number, row.fault, self._numbers.get(row.path, 0), row.at))
            else:
                decoded.append(row)
                rows.append(number)
        batch = pa.RecordBatch.from_pylist(decoded, self.arrow_schema)
        sizes = np.array([0, *(len(value or b"") for value in texts)]).cumsum()
        source = np.frombuffer(b"".join(value or b"" for value in texts), np.uint8)
        found = np.array(refused, np.int64).reshape(-1, 4)
        refusals = RefusedValues(self._program.nodes, source, sizes, found)
        return JsonRows(batch, np.array(rows, np.int64), refusals)

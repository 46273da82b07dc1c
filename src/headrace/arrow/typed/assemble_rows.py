"""Make Arrow arrays of the JSON kernel's output memory, without copies but for bits."""

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.kernels.json.layout import Col, Head
from headrace.kernels.json.program import PARTED, SHIFTS, TEXTS, Node, Program
from headrace.typed.types import Kind

Array = np.ndarray[Any, Any]


def assemble_rows(program: Program, work: Array, out: Array, schema: pa.Schema) -> pa.RecordBatch:
    """Return the decoded rows, which keep `out` alive."""
    marks = work[work[Head.MARKS] :][: work[Head.MARK_COUNT]].tolist()
    assembly = _Assembly(program, marks, out)
    root = program.nodes[0]
    columns = [
        assembly.array(child, field.type)
        for child, field in zip(root.children, schema, strict=True)
    ]
    if not marks[0]:
        return pa.RecordBatch.from_pylist([], schema)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Assembly:
    def __init__(self, program: Program, marks: list[int], out: Array) -> None:
        self._places = program.rows.tolist()
        self._marks = marks
        self._out = out

    def array(self, node: Node, kind: pa.DataType) -> pa.Array:
        """Return the array of a node."""
        count = self._marks[node.space]
        valid, nulls = self._validity(node, count)
        buffers = [valid, *self._buffers(node, count)]
        children = None
        if node.type.kind is Kind.STRUCT:
            children = [
                self.array(child, kind.field(at).type) for at, child in enumerate(node.children)
            ]
        elif node.type.kind is Kind.ARRAY:
            children = [self.array(node.children[0], kind.value_type)]
        elif node.type.kind is Kind.MAP:
            children = [self._pairs(node, kind)]
        return pa.Array.from_buffers(kind, count, buffers, nulls, 0, children)

    def _pairs(self, node: Node, kind: pa.DataType) -> pa.Array:
        pair = pa.struct([kind.key_field, kind.item_field])
        columns = [
            self.array(child, part.type)
            for child, part in zip(node.children, (kind.key_field, kind.item_field), strict=True)
        ]
        count = self._marks[node.inner]
        return pa.Array.from_buffers(pair, count, [None], 0, 0, columns)

    def _validity(self, node: Node, count: int) -> tuple[pa.Buffer | None, int]:
        if not node.nullable:
            return None, 0
        valid = self._part(self._places[node.number][Col.VALID], count)
        nulls = count - int(np.count_nonzero(valid))
        return _bits(valid) if nulls else None, nulls

    def _buffers(self, node: Node, count: int) -> list[pa.Buffer]:
        kind, places = node.type.kind, self._places[node.number]
        if kind is Kind.STRUCT:
            return []
        if kind is Kind.BOOLEAN:
            return [_bits(self._part(places[Col.DATA], count))]
        slots = count + (kind in PARTED)
        buffers = [pa.py_buffer(self._part(places[Col.DATA], slots << SHIFTS[kind]))]
        if kind in TEXTS:
            size = self._marks[places[Col.MARK]]
            buffers.append(pa.py_buffer(self._part(places[Col.BYTES], size)))
        return buffers

    def _part(self, begin: int, size: int) -> Array:
        return self._out[begin : begin + size]


def _bits(flags: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))

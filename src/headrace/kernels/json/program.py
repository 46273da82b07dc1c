"""Compile a schema to the arrays that the JSON kernel interprets. No code is generated: a schema
costs microseconds, and the kernel is compiled once for all of them."""

import json
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.kernels.json.layout import (
    FRAMES_AT,
    FRAMES_MAX,
    SKIPPED_AT,
    SLACK,
    SLOTS_FULL,
    UNKNOWN_NAMES,
    UNKNOWN_WORDS,
    Col,
    Head,
)
from headrace.typed.ddl import SchemaError
from headrace.typed.types import DEPTH_MAX, INTEGERS, ColumnType, Kind

Array = np.ndarray[Any, Any]

SHIFTS = {
    Kind.BOOLEAN: 0,
    Kind.TINYINT: 0,
    Kind.SMALLINT: 1,
    Kind.INT: 2,
    Kind.BIGINT: 3,
    Kind.FLOAT: 2,
    Kind.DOUBLE: 3,
    Kind.DECIMAL: 4,
    Kind.TIMESTAMP: 3,
    Kind.TIMESTAMP_NTZ: 3,
    Kind.DATE: 2,
    Kind.STRING: 2,
    Kind.BINARY: 2,
    Kind.ARRAY: 2,
    Kind.MAP: 2,
    Kind.STRUCT: 0,
}
"""Binary logarithm of the bytes of a value; of STRING, BINARY, ARRAY and MAP: of an end."""
PARTED = frozenset({Kind.STRING, Kind.BINARY, Kind.ARRAY, Kind.MAP})
"""Kinds whose values are ranges between ends."""
TEXTS = frozenset({Kind.STRING, Kind.BINARY})
ELEMENT_BYTES = 2
"""The least bytes of an element of an ARRAY, its comma included."""
_NAMES_SLACK = 16


@dataclass
class Node:
    """A node of a schema: the record, a field, an element, a key or a value of a MAP."""

    number: int
    type: ColumnType
    nullable: bool
    path: str
    space: int
    name: bytes = b""
    children: list["Node"] = field(default_factory=list)
    inner: int = 0
    """Of an ARRAY or MAP: the space below it."""


class Program:
    """A compiled schema."""

    def __init__(self, schema: ColumnType) -> None:
        if _depth(schema) > FRAMES_MAX - 1:
            raise SchemaError(f"schema: more than {FRAMES_MAX - 1} nested types")
        self.schema = schema
        self.nodes: list[Node] = []
        self.spaces = 1
        self._add_nodes(schema)
        self.texts = [node for node in self.nodes if node.type.kind in TEXTS]
        self.has_maps = any(node.type.kind is Kind.MAP for node in self.nodes)
        self.rows = np.zeros((len(self.nodes), len(Col)), np.int64)
        self._names = bytearray()
        self._fills: list[int] = []
        for node in self.nodes:
            self._describe(node)
        self.names = np.frombuffer(bytes(self._names) + bytes(_NAMES_SLACK), np.uint8)
        self.mark_count = self.spaces + len(self.texts)

    def _add_nodes(self, schema: ColumnType) -> None:
        """Give numbers to the nodes so that the children of each follow each other."""
        root = Node(0, schema, False, "", 0)
        self.nodes.append(root)
        waiting = deque([root])
        while waiting:
            node = waiting.popleft()
            if node.type.kind in {Kind.ARRAY, Kind.MAP}:
                node.inner = self.spaces
                self.spaces += 1
            for name, kind, nullable, path in _parts(node):
                space = node.inner or node.space
                child = Node(len(self.nodes), kind, nullable, path, space, name.encode())
                self.nodes.append(child)
                node.children.append(child)
                waiting.append(child)

    def _describe(self, node: Node) -> None:
        row, kind = self.rows[node.number], node.type.kind
        row[Col.KIND], row[Col.NULLABLE], row[Col.SPACE] = kind, node.nullable, node.space
        row[Col.CHILD] = node.children[0].number if node.children else 0
        row[Col.CHILDREN] = len(node.children)
        row[Col.SHIFT] = SHIFTS[kind]
        if kind in TEXTS:
            row[Col.MARK] = self.spaces + self.texts.index(node)
        else:
            row[Col.MARK] = node.inner
        row[Col.NAME], row[Col.NAME_SIZE] = self._name(node.name), len(node.name)
        pattern = b'"%s":' % node.name
        if json.dumps(node.name.decode(), ensure_ascii=False).encode() + b":" == pattern:
            row[Col.PATTERN], row[Col.PATTERN_SIZE] = self._name(pattern), len(pattern)
        row[Col.UNIT], row[Col.SCALE] = node.type.unit, node.type.scale
        row[Col.PRECISION] = INTEGERS.get(kind, node.type.precision)
        if kind is Kind.STRUCT:
            fills = [part.number for part in _same_space(node)]
            row[Col.FILL], row[Col.FILLS] = len(self._fills), len(fills)
            self._fills += fills

    def _name(self, name: bytes) -> int:
        place = len(self._names)
        self._names += name
        return place

    def needs_max(self, size: int) -> list[int]:
        """Return the most that records of `size` bytes need: the slots of each space, of which the
        first is not counted, then the bytes of each text."""
        return [size // ELEMENT_BYTES + 1] * self.spaces + [size] * len(self.texts)

    def needs_within(self, size: int, bytes_max: int) -> list[int]:
        """Return `needs_max`, or less so that slots and texts have `bytes_max` bytes in all.

        Elements of a wide STRUCT seldom have two bytes, and few texts of many have all bytes.
        """
        needs = self.needs_max(size)
        if size * (self.bytes_per_byte - 1) <= bytes_max:
            return needs
        slot_bytes, texts = self._slot_bytes, len(self.texts)
        share = bytes_max // ((slot_bytes > 0) + (texts > 0))
        slots = max(1, share // max(1, slot_bytes))
        text = max(1, share // max(1, texts))
        return [min(need, slots) for need in needs[: self.spaces]] + [
            min(need, text) for need in needs[self.spaces :]
        ]

    def arena(self, rows: int, size: int, needs: Sequence[int]) -> tuple[Array, int]:
        """Return output memory for `rows` records of `size` bytes in all, and the place of the
        scratch space. The places in the program are those of this memory from now on.

        `needs`: as of `needs_max`; the kernel stops before a record that needs more.
        """
        place = 0
        for node in self.nodes:
            slots = needs[node.space] if node.space else rows
            kind, row = node.type.kind, self.rows[node.number]
            row[Col.SLOTS] = slots
            row[Col.VALID], place = place, _after(place, slots)
            if kind is not Kind.STRUCT:
                row[Col.DATA], place = place, _after(place, (slots + 1) << SHIFTS[kind])
            if kind in TEXTS:
                text = needs[row[Col.MARK]]
                row[Col.LIMIT] = place + text
                row[Col.BYTES], place = place, _after(place, text)
        memory = np.empty(_after(place, size), np.uint8)
        for node in self.nodes:
            if node.type.kind in PARTED:
                begin = self.rows[node.number, Col.DATA]
                memory[begin : begin + 4] = 0
        return memory, place

    @property
    def bytes_per_byte(self) -> float:
        """The most bytes of output memory for each byte of input, without what rows need."""
        return 1 + len(self.texts) + self._slot_bytes / ELEMENT_BYTES

    @property
    def _slot_bytes(self) -> int:
        """Bytes of a slot in each space but the first."""
        inner = [SHIFTS[node.type.kind] for node in self.nodes if node.space]
        return sum(1 + (1 << shift) for shift in inner)

    def full_need(self, work: Array) -> int:
        """Return which of the needs the kernel's last record exceeded."""
        row = self.rows[work[Head.NODE]]
        return int(row[Col.SPACE if work[Head.FULL] == SLOTS_FULL else Col.MARK])

    def work(self, record_bytes: int) -> Array:
        """Return the kernel's state for records of at most `record_bytes` bytes."""
        nodes, marks = len(self.nodes), self.mark_count
        entries = 1
        # An entry of a MAP has at least five bytes of text, and the table stays half empty.
        while self.has_maps and entries * 5 < 2 * record_bytes:
            entries *= 2
        head = np.zeros(FRAMES_AT, np.int64)
        place = SKIPPED_AT + DEPTH_MAX
        sections = (
            (Head.MARKS, marks),
            (Head.SAVED, marks),
            (Head.STAMPS, nodes),
            (Head.FOLLOWERS, nodes),
            (Head.FIRSTS, nodes),
            (Head.FILLS, len(self._fills)),
            (Head.TABLE, 2 * entries),
            # One more, always free: the expected entry after the last one.
            (Head.UNKNOWN_NAMES, (UNKNOWN_NAMES + 1) * UNKNOWN_WORDS),
        )
        for slot, size in sections:
            head[slot] = place
            place += size
        head[Head.MARK_COUNT], head[Head.TABLE_MASK] = marks, entries - 1
        head[Head.STOPPED], head[Head.UNKNOWN_EXPECTED] = -1, head[Head.UNKNOWN_NAMES]
        head[Head.SERIAL], head[Head.SEED] = 1, secrets.randbits(62)
        work = np.zeros(place, np.int64)
        work[:FRAMES_AT] = head
        firsts = [node.children[0].number if node.children else 0 for node in self.nodes]
        for slot, content in (
            (Head.FOLLOWERS, self._followers()),
            (Head.FIRSTS, firsts),
            (Head.FILLS, self._fills),
        ):
            work[head[slot] : head[slot] + len(content)] = content
        return work

    def _followers(self) -> list[int]:
        """Return for each node the next field of its STRUCT, from the last one the first."""
        followers = [0] * len(self.nodes)
        for node in self.nodes:
            for at, child in enumerate(node.children):
                following = node.children[(at + 1) % len(node.children)]
                followers[child.number] = following.number
        return followers


def _after(place: int, size: int) -> int:
    """Return the place after a buffer of `size` bytes and its slack."""
    return place + (size + 2 * SLACK - 1) // SLACK * SLACK


def _parts(node: Node) -> list[tuple[str, ColumnType, bool, str]]:
    """Return name, type, nullability and path of a node's children."""
    column, path = node.type, node.path
    if column.kind is Kind.STRUCT:
        return [
            (part.name, part.type, part.nullable, f"{path}.{part.name}" if path else part.name)
            for part in column.fields
        ]
    if column.element is None:
        return []
    value = ("", column.element.type, column.element.nullable, f"{path}[]")
    if column.kind is Kind.MAP:
        return [("", ColumnType(Kind.STRING), False, f"{path}[]"), value]
    return [value]


def _depth(column: ColumnType) -> int:
    parts = [part.type for part in column.fields] or (
        [column.element.type] if column.element else []
    )
    return 1 + max(map(_depth, parts)) if parts else 0


def _same_space(node: Node) -> list[Node]:
    """Return the nodes below a STRUCT that have its slots."""
    found: list[Node] = []
    for child in node.children:
        found.append(child)
        if child.type.kind is Kind.STRUCT:
            found += _same_space(child)
    return found

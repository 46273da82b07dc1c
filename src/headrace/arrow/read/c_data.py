"""RecordBatches on numpy memory, by Arrow's C data interface.

pyarrow's own API takes some twenty calls for the columns of a RecordBatch, and after a few thousand
rows were decoded their code is no longer in the processor's cache. Here a buffer set is described
once, in the structures of the interface; then each RecordBatch is one call.

A `struct ArrowArray` is ten words of eight bytes (`_Word`). All of a RecordBatch lie in one array:

    root | column | column | ... | pointers to buffers and children of each

Ownership: `_import_from_c` moves the root and sets `release` to 0 in our copy. Until Arrow calls
`release`, a reference on the owner, counted by `Py_IncRef`, keeps the memory alive.

Source: https://arrow.apache.org/docs/format/CDataInterface.html
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.kernels.layout import Slot

Array = np.ndarray[Any, Any]


class _Word(IntEnum):
    """Indices of the fields in a `struct ArrowArray`, each of eight bytes."""

    LENGTH = 0
    NULL_COUNT = 1
    OFFSET = 2
    N_BUFFERS = 3
    N_CHILDREN = 4
    BUFFERS = 5
    CHILDREN = 6
    DICTIONARY = 7
    RELEASE = 8
    PRIVATE_DATA = 9


_WORDS, _WORD_BYTES = len(_Word), 8
_LENGTH, _NULL_COUNT, _RELEASE, _PRIVATE = (
    int(_Word.LENGTH), int(_Word.NULL_COUNT), int(_Word.RELEASE), int(_Word.PRIVATE_DATA),
)  # fmt: skip
_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes, _keep.restype = [ctypes.py_object], None


def _releaser() -> int:
    """Return the address of the C callback that Arrow calls when an exported RecordBatch is freed.

    Arrow may call it on any thread and during interpreter shutdown. So it takes the GIL
    (`CFUNCTYPE`), uses no global names, and is never freed itself.
    """
    drop = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))
    structure = ctypes.c_int64 * _WORDS
    released, private = _RELEASE, _PRIVATE

    def release(address: int) -> None:
        words = structure.from_address(address)
        words[released] = 0
        drop(words[private])

    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)
    _keep(called)
    return ctypes.cast(called, ctypes.c_void_p).value or 0


_RELEASER = _releaser()


def data_address(array: Array) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


@dataclass(frozen=True)
class ArrayNode:
    """An array of a RecordBatch: a column, a nested part of a column, or a dictionary."""

    buffers: tuple[Array, ...] = ()
    """The data buffers, without the validity bitmap."""
    length: Slot | int = Slot.ROWS
    """Number of elements, or the slot of the decoder's state that holds it."""
    valid: Array | None = None
    nulls: Slot | None = None
    """The state's slot that holds the null count; None: never null."""
    children: tuple["ArrayNode", ...] = ()
    dictionary: "ArrayNode | None" = None

    def walk(self) -> Iterator["ArrayNode"]:
        """Yield this array and all arrays below it."""
        yield self
        for node in (*self.children, *([self.dictionary] if self.dictionary else [])):
            yield from node.walk()


class RecordBatchExport:
    """The C structures of a buffer set, from which one RecordBatch at a time is exported."""

    def __init__(self, schema: pa.Schema, columns: Sequence[ArrayNode]) -> None:
        root = ArrayNode(children=tuple(columns))
        self._schema = schema
        self._nodes = list(root.walk())
        pointers = sum(1 + len(node.buffers) + len(node.children) for node in self._nodes)
        self._array = np.zeros(len(self._nodes) * _WORDS + pointers, np.int64)
        self._words = memoryview(self._array.data)
        self._address = data_address(self._array)
        self._free = len(self._nodes) * _WORDS
        self._nullable: list[tuple[int, int, int, Slot]] = []
        """For each nullable array: its structure, the word of its bitmap, the bitmap, its null
        count's slot."""
        self._lengths: list[tuple[int, Slot]] = []
        for number, node in enumerate(self._nodes):
            self._describe(number * _WORDS, node)

    def _describe(self, at: int, node: ArrayNode) -> None:
        words = self._words
        valid = self._pointers(at, _Word.BUFFERS, [0, *map(data_address, node.buffers)])
        self._pointers(at, _Word.CHILDREN, list(map(self._node_address, node.children)))
        if node.dictionary is not None:
            words[at + _Word.DICTIONARY] = self._node_address(node.dictionary)
        # A nested array is released with its root, but a 0 would mark it as already released.
        words[at + _RELEASE] = _RELEASER
        if isinstance(node.length, Slot):
            self._lengths.append((at + _LENGTH, node.length))
        else:
            words[at + _LENGTH] = node.length
        if node.nulls is not None and node.valid is not None:
            self._nullable.append((at, valid, data_address(node.valid), node.nulls))

    def _pointers(self, at: int, word: _Word, pointers: list[int]) -> int:
        """Store pointers after the structures, and their address in the structure at `at`."""
        begin = self._free
        self._free += len(pointers)
        self._words[begin : self._free] = memoryview(np.array(pointers, np.int64).data)
        self._words[at + word] = self._address + begin * _WORD_BYTES
        counts = _Word.N_BUFFERS if word is _Word.BUFFERS else _Word.N_CHILDREN
        self._words[at + counts] = len(pointers)
        return begin

    def _node_address(self, node: ArrayNode) -> int:
        number = next(at for at, known in enumerate(self._nodes) if known is node)
        return self._address + number * _WORDS * _WORD_BYTES

    def record_batch(self, state: Sequence[int], owner: object) -> pa.RecordBatch:
        """Return a RecordBatch of the memory's current content, with lengths from `state`.

        Arrow keeps a reference to `owner` until the RecordBatch and all its slices are freed.
        """
        words = self._words
        for at, slot in self._lengths:
            words[at] = state[slot]
        for at, valid, bitmap, slot in self._nullable:
            words[at + _NULL_COUNT] = nulls = state[slot]
            words[valid] = bitmap if nulls else 0
        _keep(owner)
        words[_RELEASE], words[_PRIVATE] = _RELEASER, id(owner)
        return pa.RecordBatch._import_from_c(self._address, self._schema)

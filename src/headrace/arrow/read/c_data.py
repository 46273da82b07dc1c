"""RecordBatches of memory that is ours, by Arrow's C data interface.

pyarrow's own way takes some twenty calls for the columns of a RecordBatch, and finds each one's
code gone from the processor's cache, where a few thousand rows were decoded since. Here a set of
memory is described once, in the structures of the interface; a RecordBatch of it is one call.

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
    """Places in a `struct ArrowArray`: all its fields take eight bytes."""

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
    """Return the address of the function that Arrow calls when a lent RecordBatch is freed.

    From any thread, and as late as the interpreter's end: it takes the interpreter's lock, refers
    to no global name, and is never freed.
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
    """Return the address of an array's first number."""
    address: int = array.__array_interface__["data"][0]
    return address


@dataclass(frozen=True)
class ArrayNode:
    """One array of a RecordBatch: a column, a part of one, or a dictionary."""

    buffers: tuple[Array, ...] = ()
    """All but the validity bitmap."""
    length: Slot | int = Slot.ROWS
    """How long it is, or where the decoder's state says it."""
    valid: Array | None = None
    nulls: Slot | None = None
    """Where the state says how many nulls there are; None: never any."""
    children: tuple["ArrayNode", ...] = ()
    dictionary: "ArrayNode | None" = None

    def walk(self) -> Iterator["ArrayNode"]:
        """Yield the node, and all below it."""
        yield self
        for node in (*self.children, *([self.dictionary] if self.dictionary else [])):
            yield from node.walk()


class RecordBatchExport:
    """A set of memory as Arrow sees it, to be lent again and again: once at a time."""

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
        """Structure, the word for its bitmap, the bitmap, where its nulls are counted."""
        self._lengths: list[tuple[int, Slot]] = []
        for number, node in enumerate(self._nodes):
            self._describe(number * _WORDS, node)

    def _describe(self, at: int, node: ArrayNode) -> None:
        words = self._words
        valid = self._pointers(at, _Word.BUFFERS, [0, *map(data_address, node.buffers)])
        self._pointers(at, _Word.CHILDREN, list(map(self._node_address, node.children)))
        if node.dictionary is not None:
            words[at + _Word.DICTIONARY] = self._node_address(node.dictionary)
        # A part is released with the whole, yet must not look as if it had been.
        words[at + _RELEASE] = _RELEASER
        if isinstance(node.length, Slot):
            self._lengths.append((at + _LENGTH, node.length))
        else:
            words[at + _LENGTH] = node.length
        if node.nulls is not None and node.valid is not None:
            self._nullable.append((at, valid, data_address(node.valid), node.nulls))

    def _pointers(self, at: int, word: _Word, pointers: list[int]) -> int:
        """Put them behind the structures, and where they are into the one at `at`."""
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
        """Return what the memory holds, by the decoder's `state`.

        `owner` lives as long as any of it.
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

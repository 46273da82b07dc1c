"""Files of a SimDisk: nodes, the recorded operations and open files."""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from headrace.ports.disk import Buffer


class Op(NamedTuple):
    """A recorded operation on the node `node`.

    kind            number                         other fields
    write           position                       data
    truncate        new size
    sync, dirsync   operations covered before it
    link            node of the child              name, directory
    unlink                                         name
    rename          node of the other directory    name, new_name
    """

    kind: str
    node: int
    number: int = 0
    data: bytes = b""
    name: str = ""
    new_name: str = ""
    directory: bool = False

    def apply(self, content: bytearray) -> None:
        """Apply a write or truncation to `content`."""
        if self.kind == "write":
            put(content, self.number, self.data)
        elif self.kind == "truncate":
            del content[self.number :]
            content.extend(bytes(self.number - len(content)))


def put(content: bytearray, position: int, piece: bytes) -> None:
    """Write `piece` at `position`; a gap after the old end is filled with zeros."""
    content.extend(bytes(max(0, position - len(content))))
    content[position : position + len(piece)] = piece


CHANGES = count(1)


@dataclass(slots=True)
class Node:
    """A file (`content`) or a directory (`entries`)."""

    content: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] | None = None
    mtime_ms: int = 0
    changed: int = field(default_factory=CHANGES.__next__)
    """Number of the last change; unique, so that the state after a power cut never equals the one
    before."""


@dataclass(slots=True)
class Fault:
    """An injected fault: the operation that fails, its error, and whether all later ones fail
    too."""

    at: int
    code: int
    partial: int
    sticky: bool


class Store(Protocol):
    """The disk behind an open file: `disk.SimDisk`."""

    nodes: dict[int, Node]
    ops: list[Op]
    now_ms: Callable[[], int]
    cold: bool
    open_files: int
    forgotten: int

    def fault(self, kind: str) -> Fault | None:
        """Count an operation and return the fault that hits it, or None."""

    def record(self, operation: Op) -> None:
        """Record an operation."""

    def sync_nodes(self, nodes: Collection[int], upto: int) -> None:
        """Make the operations before number `upto` on those files durable. OSError by fault."""

    def drop_pages(self, node: int) -> None:
        """Reset the file to its content on the disk if a sync of it failed."""


class SimFile:
    """An open file of a SimDisk."""

    def __init__(self, disk: Store, path: str, node: int, writable: bool) -> None:
        """Created by `SimDisk.open`."""
        self._disk = disk
        self.path = path
        self.node = node
        self._writable = writable
        self.closed = False

    def _content(self) -> bytearray:
        if self.closed:
            raise OSError(errno.EBADF, "closed", self.path)
        return self._disk.nodes[self.node].content

    def fileno(self) -> int:
        """Return -1: there is no file descriptor."""
        return -1

    def size(self) -> int:
        """Return the current size in bytes."""
        return len(self._content())

    def mtime_ms(self) -> int:
        """Return the time of the last modification in milliseconds since 1970."""
        return self._disk.nodes[self.node].mtime_ms

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Set the time of the last modification."""
        self._disk.nodes[self.node].mtime_ms = mtime_ms

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write the parts; an injected fault writes only some of the bytes and raises OSError."""
        content = self._content()
        if not self._writable:
            raise OSError(errno.EBADF, "opened for reading", self.path)
        data = b"".join(bytes(part) for part in parts)
        fault = self._disk.fault("write")
        kept = data if fault is None else data[: fault.partial]
        if kept:
            put(content, position, kept)
            self._disk.nodes[self.node].mtime_ms = self._disk.now_ms()
            self._disk.record(Op("write", self.node, position, kept))
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        return len(data)

    def write_held(self) -> None:
        """Do nothing: writes are never held back."""

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """Read as `read` does; None if the disk is `cold`."""
        return None if self._disk.cold else self.read(position, size)

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """Read into `into`; return the number of bytes, 0 if the disk is `cold`."""
        data = b"" if self._disk.cold else self.read(position, len(into))
        into[: len(data)] = data
        return len(data)

    def cached(self, position: int, size: int) -> bool:
        """Tell whether the range exists and the disk is not `cold`."""
        return not self._disk.cold and position + size <= len(self._content())

    def send(self, position: int, size: int, socket: int) -> int:
        """Write the range to a descriptor of a file or socket."""
        try:
            return os.write(socket, self.read(position, size))
        except BlockingIOError:
            return 0

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes."""
        return bytes(self._content()[position : position + size])

    def forget(self, position: int, size: int) -> None:
        """Count the bytes as dropped; pages that a failed sync left clean are lost."""
        self._content()
        self._disk.forgotten += size
        self._disk.drop_pages(self.node)

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        content = self._content()
        fault = self._disk.fault("write")
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        del content[size:]
        content.extend(bytes(size - len(content)))
        self._disk.record(Op("truncate", self.node, size))

    def sync(self) -> None:
        """Make the written data durable."""
        self._content()
        self._disk.sync_nodes([self.node], len(self._disk.ops))

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            self._disk.open_files -= 1

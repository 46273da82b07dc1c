"""A disk in memory that remembers every operation, so that power cuts can be enumerated.

`SimDisk` implements `world.disk.Disk`. It keeps two things apart that a real disk confuses until
the power goes: what a process sees (all it did) and what is on the platter (what was synced). See
`disk_crash.crash_states` for the disks that a power cut may leave behind.

Nothing happens by itself: `flush` and `run` queue their work, `settle` does it and calls back. A
flush makes durable what was written before it was asked for, and not a byte more, although a real
one may: the model is to be the worst disk that keeps its promises.

Faults (`fail_writes`, `fail_syncs`, `flip`) say when; what survives them is the caller's to check.
"""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, TypeVar

from headrace.world.disk import Buffer, DiskFile, Stat

T = TypeVar("T")
_BOOTS = count()


class Op(NamedTuple):
    """One recorded operation on the node `node`.

    write (number: position, data) · truncate (number: size) · sync and dirsync (number: how many
    operations before it are covered) · link (name, number: the child, directory) · unlink (name) ·
    rename (name, number: the other directory, new_name).
    """

    kind: str
    node: int
    number: int = 0
    data: bytes = b""
    name: str = ""
    new_name: str = ""
    directory: bool = False


@dataclass(slots=True)
class _Fault:
    at: int
    code: int
    partial: int
    sticky: bool


_CHANGES = count(1)


@dataclass(slots=True)
class Node:
    """A file (`content`) or a directory (`entries`)."""

    content: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] | None = None
    mtime_ms: int = 0
    changed: int = field(default_factory=_CHANGES.__next__)
    """Another number after each change: what a power cut leaves is never taken for what was."""


class SimFile:
    """An open file of a SimDisk."""

    def __init__(self, disk: "SimDisk", path: str, node: int, writable: bool) -> None:
        """Opened by `SimDisk.open`."""
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
        """There is none."""
        return -1

    def size(self) -> int:
        """Bytes the file holds now."""
        return len(self._content())

    def mtime_ms(self) -> int:
        """Last modification, milliseconds since 1970."""
        return self._disk.nodes[self.node].mtime_ms

    def set_mtime_ms(self, mtime_ms: int) -> None:
        """Change that time."""
        self._disk.nodes[self.node].mtime_ms = mtime_ms

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Write; with a fault, part of it and an OSError."""
        content = self._content()
        if not self._writable:
            raise OSError(errno.EBADF, "opened for reading", self.path)
        data = b"".join(bytes(part) for part in parts)
        fault = self._disk.fault("write")
        kept = data if fault is None else data[: fault.partial]
        if kept:
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(kept)] = kept
            self._disk.nodes[self.node].mtime_ms = self._disk.now_ms()
            self._disk.record(Op("write", self.node, position, kept))
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        return len(data)

    def read_cached(self, position: int, size: int) -> Buffer | None:
        """As `read`, None while the disk plays cold."""
        return None if self._disk.cold else self.read(position, size)

    def read_cached_into(self, position: int, into: memoryview) -> int:
        """As `read`, nothing while the disk plays cold."""
        data = b"" if self._disk.cold else self.read(position, len(into))
        into[: len(data)] = data
        return len(data)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes."""
        return bytes(self._content()[position : position + size])

    def forget(self, position: int, size: int) -> None:
        """Count the bytes."""
        self._content()
        self._disk.forgotten += size

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros."""
        content = self._content()
        fault = self._disk.fault("write")
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        del content[size:]
        content.extend(bytes(size - len(content)))
        self._disk.record(Op("truncate", self.node, size))

    def sync(self) -> None:
        """Make what was written durable."""
        self._content()
        self._disk.sync_nodes([self.node], len(self._disk.ops))

    def close(self) -> None:
        """Close."""
        if not self.closed:
            self.closed = True
            self._disk.open_files -= 1


class SimDisk:
    """A file system in memory. `world.disk.Disk`. The root directory is ``/``."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        """Empty; `now_ms` gives files their modification times."""
        self.nodes: dict[int, Node] = {0: Node(entries={})}
        self.base: dict[int, Node] = {0: Node(entries={})}
        """What was on the platter before the first operation."""
        self.ops: list[Op] = []
        self.now_ms = now_ms
        self.cold = False
        """Whether the page cache holds nothing: `read_cached` answers None."""
        self.open_files = 0
        self.syncs = 0
        self.forgotten = 0
        """Bytes that the page cache was told to let go of."""
        self.boot = f"boot-{next(_BOOTS)}"
        self._faults: dict[str, _Fault] = {}
        self._counts = {"write": 0, "sync": 0}
        self._queue: list[Callable[[], None]] = []
        self._locks: set[str] = set()

    # --- faults and control ------------------------------------------------------------------

    def fail_writes(
        self, at: int = 0, code: int = errno.ENOSPC, partial: int = 0, sticky: bool = True
    ) -> None:
        """Fail the write (or truncation) after `at` good ones, and all later ones if `sticky`.

        `partial` bytes of a failing write are written nevertheless.
        """
        self._faults["write"] = _Fault(self._counts["write"] + at, code, partial, sticky)

    def fail_syncs(self, at: int = 0, code: int = errno.EIO, sticky: bool = False) -> None:
        """Fail the sync after `at` good ones. What it should have saved is not saved."""
        self._faults["sync"] = _Fault(self._counts["sync"] + at, code, 0, sticky)

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()

    def fault(self, kind: str) -> _Fault | None:
        """Count an operation; the fault that hits it, if any."""
        count = self._counts[kind]
        self._counts[kind] = count + 1
        fault = self._faults.get(kind)
        if fault is None or count < fault.at or (count > fault.at and not fault.sticky):
            return None
        return fault

    def flip(self, path: str, position: int, mask: int = 0x01) -> None:
        """Flip bits of a byte behind everybody's back."""
        self.nodes[self._node(path)].content[position] ^= mask

    def record(self, operation: Op) -> None:
        """Remember an operation."""
        self.ops.append(operation)
        if operation.kind not in {"sync", "dirsync"}:
            touched = [operation.node]
            if operation.kind == "rename":
                touched.append(operation.number)
            for node in touched:
                self.nodes[node].changed = next(_CHANGES)

    def settle(self, steps: int = 1_000_000) -> int:
        """Do the queued flushes and jobs, and those that follow from them; returns how many."""
        done = 0
        while self._queue and done < steps:
            self._queue.pop(0)()
            done += 1
        return done

    @property
    def busy(self) -> bool:
        """Whether flushes or jobs are queued."""
        return bool(self._queue)

    def sync_nodes(self, nodes: Collection[int], upto: int) -> None:
        """Make the operations before number `upto` on those files durable. OSError by fault."""
        for node in nodes:
            self.syncs += 1
            fault = self.fault("sync")
            if fault is not None:
                raise OSError(fault.code, os.strerror(fault.code))
            self.record(Op("sync", node, upto))

    # --- the tree ----------------------------------------------------------------------------

    def _walk(self, path: str) -> int | None:
        at = 0
        for name in path.strip("/").split("/"):
            if not name:
                continue
            entries = self.nodes[at].entries
            if entries is None or name not in entries:
                return None
            at = entries[name]
        return at

    def _node(self, path: str) -> int:
        found = self._walk(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return found

    def _parent(self, path: str) -> tuple[int, dict[str, int], str]:
        head, _, name = path.rstrip("/").rpartition("/")
        parent = self._node(head)
        entries = self.nodes[parent].entries
        if entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", head)
        return parent, entries, name

    def _link(self, path: str, node: Node) -> int:
        parent, entries, name = self._parent(path)
        number = max(self.nodes) + 1
        self.nodes[number] = node
        entries[name] = number
        self.record(Op("link", parent, number, name=name, directory=node.entries is not None))
        return number

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file, made where `create`."""
        number = self._walk(path)
        if number is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            number = self._link(path, Node(mtime_ms=self.now_ms()))
        if self.nodes[number].entries is not None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        self.open_files += 1
        return SimFile(self, path, number, writable)

    def exists(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        return self._walk(path) is not None

    def stat(self, path: str) -> Stat | None:
        """Size and last change."""
        number = self._walk(path)
        if number is None:
            return None
        node = self.nodes[number]
        return Stat(len(node.content), node.changed)

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        entries = self.nodes[self._node(path)].entries
        if entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return sorted(entries)

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory."""
        found = self._walk(path)
        return found is not None and self.nodes[found].entries is not None

    def make_directory(self, path: str) -> None:
        """Create it and its parents."""
        at = ""
        for name in path.strip("/").split("/"):
            at = f"{at}/{name}"
            if self._walk(at) is None:
                self._link(at, Node(entries={}))

    def rename(self, source: str, target: str) -> None:
        """Atomic replace."""
        number = self._node(source)
        parent, entries, name = self._parent(source)
        other, others, new = self._parent(target)
        del entries[name]
        others[new] = number
        self.record(Op("rename", parent, other, name=name, new_name=new))

    def remove(self, path: str) -> None:
        """Unlink a file."""
        self._node(path)
        parent, entries, name = self._parent(path)
        del entries[name]
        self.record(Op("unlink", parent, name=name))

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it."""
        for name in self.list(path):
            inside = f"{path}/{name}"
            if self.is_directory(inside):
                self.remove_tree(inside)
            else:
                self.remove(inside)
        self.remove(path)

    def sync_directory(self, path: str) -> None:
        """Make the entries of a directory durable."""
        node = self._node(path)
        fault = self.fault("sync")
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)
        self.record(Op("dirsync", node, len(self.ops)))

    def sync_directories(self, paths: Collection[str]) -> None:
        """One after the other; those that are gone are skipped."""
        for path in paths:
            if self.is_directory(path):
                self.sync_directory(path)

    def sync_all(self, path: str) -> None:
        """Make all files and directories durable. OSError by fault."""
        self._node(path)
        fault = self.fault("sync")
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)
        upto = len(self.ops)
        for number, node in self.nodes.items():
            self.record(Op("sync" if node.entries is None else "dirsync", number, upto))

    def boot_id(self) -> str:
        """Another one for each SimDisk: what a power cut leaves is a new one."""
        return self.boot

    def replace(self, path: str, content: bytes) -> None:
        """Temporary file, sync, rename, sync of the directory."""
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(0, (content,))
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    def free_bytes(self, path: str) -> int:
        """Always plenty."""
        self._node(path)
        return 1 << 40

    def total_bytes(self, path: str) -> int:
        """Twice of that."""
        self._node(path)
        return 1 << 41

    def lock(self, path: str) -> Callable[[], None]:
        """Exclusive among the users of this object."""
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        if self._walk(path) is None:
            self._link(path, Node())
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Queue a flush of what has been written so far; `settle` does it."""
        nodes = [file.node for file in files if isinstance(file, SimFile)]
        upto = len(self.ops)

        def work() -> None:
            error: OSError | None = None
            try:
                self.sync_nodes(nodes, upto)
            except OSError as problem:
                error = problem
            done(error)

        self._queue.append(work)

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Queue a job; `settle` does it."""

        def job() -> None:
            result: T | BaseException
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - handed to who asked
                result = problem
            done(result)

        self._queue.append(job)

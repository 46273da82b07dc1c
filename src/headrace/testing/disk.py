"""A disk in memory that records every operation, so that tests can enumerate power cuts.

`SimDisk` implements `ports.disk.Disk`. It separates two views that differ only after a power cut:
what processes see (every operation) and what is on the disk (synced operations).
`disk_crash.crash_states` yields the disks that a power cut may leave.

`flush` and `run` only queue work; `settle` does it and calls back. A flush makes durable exactly
what was written before it was requested. A real disk may save more, but the model is the worst disk
that keeps its guarantees.

`fail_writes`, `fail_syncs` and `flip` inject faults. The caller checks what survives them.
"""

import errno
import os
from collections.abc import Callable, Collection
from copy import deepcopy
from itertools import count
from typing import TypeVar

from headrace.ports.disk import DiskFile, Failures, Stat
from headrace.testing.disk_file import CHANGES, Fault, Node, Op, SimFile

__all__ = ["Node", "Op", "SimDisk", "SimFile"]

T = TypeVar("T")
_BOOTS = count()


class SimDisk:
    """A file system in memory that implements `ports.disk.BrokerDisk`. Its root is ``/``."""

    passes_handed_over = 0
    """No work goes to a thread."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0, *, boot: str = "") -> None:
        """Start empty. `now_ms` gives modification times, `boot` identifies the machine's start."""
        self.nodes: dict[int, Node] = {0: Node(entries={})}
        self.base: dict[int, Node] = {0: Node(entries={})}
        """Content of the disk before the first operation."""
        self.ops: list[Op] = []
        self.now_ms = now_ms
        self.cold = False
        """Whether the page cache is empty, so that `read_cached` answers None."""
        self.open_files = 0
        self.syncs = 0
        self.forgotten = 0
        """Bytes dropped from the page cache on request."""
        self.boot = boot or f"boot-{next(_BOOTS)}"
        self.unsaved: set[int] = set()
        """Numbers of the writes that a failed sync marked as clean."""
        self._faults: dict[str, Fault] = {}
        self.counts = {"write": 0, "sync": 0}
        """Operations so far, as counted by `fail_writes` and `fail_syncs`."""
        self._queue: list[Callable[[], None]] = []
        self._locks: set[str] = set()

    # --- faults and control ------------------------------------------------------------------

    def fail_writes(
        self, at: int = 0, code: int = errno.ENOSPC, partial: int = 0, sticky: bool = True
    ) -> None:
        """Fail the write (or truncation) after `at` successful ones, and all later ones if
        `sticky`.

        A failing write still writes its first `partial` bytes.
        """
        self._faults["write"] = Fault(self.counts["write"] + at, code, partial, sticky)

    def fail_syncs(self, at: int = 0, code: int = errno.EIO, sticky: bool = False) -> None:
        """Fail the sync after `at` successful ones.

        The data it should have saved is never saved, as on Linux: its pages count as clean, are
        read as before, and are lost once they leave the page cache.
        """
        self._faults["sync"] = Fault(self.counts["sync"] + at, code, 0, sticky)

    def heal(self) -> None:
        """Remove all planted faults of the disk."""
        self._faults.clear()

    def fault(self, kind: str) -> Fault | None:
        """Count an operation and return the fault that hits it, or None."""
        count = self.counts[kind]
        self.counts[kind] = count + 1
        fault = self._faults.get(kind)
        if fault is None or count < fault.at or (count > fault.at and not fault.sticky):
            return None
        return fault

    def flip(self, path: str, position: int, mask: int = 0x01) -> None:
        """Flip bits of a byte without recording an operation."""
        self.nodes[self._node(path)].content[position] ^= mask

    def record(self, operation: Op) -> None:
        """Record an operation."""
        self.ops.append(operation)
        if operation.kind not in {"sync", "dirsync"}:
            touched = [operation.node]
            if operation.kind == "rename":
                touched.append(operation.number)
            for node in touched:
                self.nodes[node].changed = next(CHANGES)

    def settle(self, steps: int = 1_000_000) -> int:
        """Do the queued work and the work it queues; return the number of jobs done."""
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
        """Make the operations on these files before number `upto` durable. OSError by fault."""
        for node in nodes:
            self.syncs += 1
            fault = self.fault("sync")
            if fault is not None:
                self._lose(node, upto)
                raise OSError(fault.code, os.strerror(fault.code))
            self.record(Op("sync", node, upto))

    def _lose(self, node: int, upto: int) -> None:
        since = self.synced_until(node)
        for number, operation in enumerate(self.ops[since:upto], since):
            if operation.kind == "write" and operation.node == node:
                self.unsaved.add(number)

    def synced_until(self, node: int) -> int:
        """Return the number of the first operation on the file that no sync covers."""
        covered = (op.number for op in self.ops if op.kind == "sync" and op.node == node)
        return max(covered, default=0)

    def drop_pages(self, node: int) -> None:
        """Reset the file to its content on the disk if a sync of it failed."""
        mine = [number for number in self.unsaved if self.ops[number].node == node]
        if not mine:
            return
        content = self.nodes[node].content
        before = self.base.get(node)
        content[:] = b"" if before is None else before.content
        for number, op in enumerate(self.ops[: self.synced_until(node)]):
            if op.node == node and number not in self.unsaved:
                op.apply(content)

    def left_by_a_kill(self) -> "SimDisk":
        """Return a copy of the disk as the next process finds it after this one is killed."""
        left = SimDisk(self.now_ms)
        left.nodes, left.base = deepcopy(self.nodes), self.base
        left.ops, left.unsaved, left.boot = list(self.ops), set(self.unsaved), self.boot
        return left

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
        """Open a file; `create` makes a missing one."""
        number = self._walk(path)
        if number is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            number = self._link(path, Node(mtime_ms=self.now_ms()))
        if self.nodes[number].entries is not None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        self.open_files += 1
        return SimFile(self, path, number, writable)

    def begin_gather(self) -> None:
        """Do nothing: writes are done immediately."""

    def end_gather(self, later: Callable[[Failures], None]) -> Failures | None:
        """Return no failures: every write is done and has reported its own error."""
        return []

    def real_path(self, path: str) -> str:
        """Return the path unchanged: the disk has no symbolic links."""
        return "/" + path.strip("/")

    def exists(self, path: str) -> bool:
        """Tell whether `path` exists."""
        return self._walk(path) is not None

    def stat(self, path: str) -> Stat | None:
        """Return the size and the number of the last change, or None if `path` is missing."""
        number = self._walk(path)
        if number is None:
            return None
        node = self.nodes[number]
        return Stat(len(node.content), node.changed)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        entries = self.nodes[self._node(path)].entries
        if entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return sorted(entries)

    def is_directory(self, path: str) -> bool:
        """Tell whether `path` is a directory."""
        found = self._walk(path)
        return found is not None and self.nodes[found].entries is not None

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        at = ""
        for name in path.strip("/").split("/"):
            at = f"{at}/{name}"
            if self._walk(at) is None:
                self._link(at, Node(entries={}))

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source`, atomically."""
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
        """Remove a directory with its content."""
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
        """Sync the directories in order; missing ones are skipped."""
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

    def absolute(self, path: str) -> str:
        """Return the path unchanged: every path starts at the root."""
        return path

    def boot_id(self) -> str:
        """Return the boot id; each SimDisk has its own unless one was given."""
        return self.boot

    def replace(self, path: str, content: bytes) -> None:
        """Replace the content through a temporary file: write, sync, rename, sync the directory."""
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
        """Return 1 TiB: the free space of a simulated disk."""
        self._node(path)
        return 1 << 40

    def total_bytes(self, path: str) -> int:
        """Return 2 TiB: the size of a simulated disk."""
        self._node(path)
        return 1 << 41

    def lock(self, path: str) -> Callable[[], None]:
        """Lock the path against other users of this object."""
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        if self._walk(path) is None:
            self._link(path, Node())
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def flush(self, files: Collection[DiskFile], done: Callable[[OSError | None], None]) -> None:
        """Queue a flush of the data written so far; `settle` executes queued flushes."""
        nodes = [file.node for file in files if isinstance(file, SimFile)]
        upto = len(self.ops)

        def work() -> None:
            error: OSError | None = None
            try:
                self.sync_nodes(nodes, upto)
            except OSError as problem:
                error = problem
            done(error)

        self._hand_over(work, flush=True)

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Queue a job for the disk's threads; `settle` executes queued jobs."""

        def job() -> None:
            result: T | BaseException
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - handed to who asked
                result = problem
            done(result)

        self._hand_over(job, flush=False)

    def _hand_over(self, job: Callable[[], None], *, flush: bool) -> None:
        """Queue a job; subclasses use `flush` to choose its thread."""
        self._queue.append(job)

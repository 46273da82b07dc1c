"""`Tree`: ZooKeeper's tree of nodes in a SQLite table, without threads or watches.

    node      path (key) | parent | value | version | created (czxid) | owner | next_sequence
    counter   zxid: last transaction | session: last session | digest: XOR of all nodes' digests

Each change is one transaction, durable when the call returns (synchronous=FULL). The write-ahead
log (`-wal` file) needs one fsync a change; a rollback journal needs four. A clean close leaves only
the main file; after a kill the next opening applies the `-wal` file. Blocking; one thread at a
time.

SQLite has no checksums, and a flipped bit in a topic's settings could cost records. So a digest of
all nodes is stored with every change and verified at each opening.
"""

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from headrace.model.errors import ConfigError
from headrace.ports.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
)

SCHEMA_VERSION = 2
"""Layout version; 1 had no digest, which an opening adds."""
SEQUENCE_DIGITS = 10
CHECKPOINT_PAGES = 4000
"""Pages of 4 KiB in the `-wal` file after which they move to the main file.

Thousands of nodes created in sequence write the same pages repeatedly.
"""

_SCHEMA = (
    "CREATE TABLE node (path TEXT PRIMARY KEY, parent TEXT, value BLOB NOT NULL,"
    " version INTEGER NOT NULL, created INTEGER NOT NULL, owner INTEGER NOT NULL,"
    " next_sequence INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX node_parent ON node (parent, path)",
    "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counter VALUES ('zxid', 0), ('session', 0)",
    "INSERT INTO node VALUES ('/', NULL, x'', 0, 0, 0, 0)",
)
_COLUMNS = ("path", "parent", "value", "version", "created", "owner", "next_sequence")
_DIGEST_OF = {table: ", ".join(f"{table}.{name}" for name in _COLUMNS) for table in ("old", "new")}
_MIXED = "UPDATE counter SET value = mix(value, digest({})) WHERE name = 'digest'"
_KEEP_DIGEST = (
    f"CREATE TEMP TRIGGER made AFTER INSERT ON node BEGIN {_MIXED.format(_DIGEST_OF['new'])}; END",
    f"CREATE TEMP TRIGGER gone AFTER DELETE ON node BEGIN {_MIXED.format(_DIGEST_OF['old'])}; END",
    "CREATE TEMP TRIGGER changed AFTER UPDATE ON node BEGIN "
    f"{_MIXED.format(_DIGEST_OF['old'])}; {_MIXED.format(_DIGEST_OF['new'])}; END",
)
"""Triggers of the connection, not stored in the file: update the XOR of all nodes' digests."""
_SIGNED = struct.Struct("<q")

Result = Node | str | None


class Tree:
    """The nodes of one database file. Opening deletes ephemeral nodes of former sessions."""

    def __init__(self, path: str) -> None:
        """Open or create the file. ConfigError if it is not a metadata store or has a newer
        layout."""
        self._sequences: dict[str, int] = {}
        """Next sequence numbers of parents in the current transaction, written once at its end."""
        # Explicit transactions: BEGIN EXCLUSIVE … COMMIT around each change.
        try:
            self._db = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ConfigError(f"metadata store {path}: {error}") from error
        try:
            # Exclusive while open: another process would delete this session's ephemeral nodes.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
            self._db.create_function("digest", len(_COLUMNS), _digest, deterministic=True)
            self._db.create_function(
                "mix", 2, lambda first, second: first ^ second, deterministic=True
            )
            with self._transaction():
                self._prepare(path)
                self._check(path)
                for trigger in _KEEP_DIGEST:
                    self._db.execute(trigger)
                self.session = self._count("session")
                self._db.execute("DELETE FROM node WHERE owner <> 0")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ConfigError(f"metadata store {path}: {error}") from error
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, path: str) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in _SCHEMA:
                self._db.execute(statement)
        elif found not in (1, SCHEMA_VERSION):
            raise ConfigError(
                f"metadata store {path}: layout {found} is of a newer Headrace; this version"
                f" reads up to layout {SCHEMA_VERSION}: use the newer one"
            )
        if found < SCHEMA_VERSION:
            self._db.execute("INSERT INTO counter VALUES ('digest', ?)", (self._digest_of_all(),))
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _check(self, path: str) -> None:
        """Raise ConfigError if the file is damaged."""
        (problem,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if problem == "ok":
            kept = self._db.execute("SELECT value FROM counter WHERE name = 'digest'").fetchone()
            if kept == (self._digest_of_all(),):
                return
            problem = "its nodes do not match their digest"
        raise ConfigError(
            f"metadata store {path}: damaged: {problem}; restore it from a copy, or move it away: "
            f"the topics are then restored from the log directories, without their settings"
        )

    def _digest_of_all(self) -> int:
        total = 0
        for row in self._db.execute(f"SELECT {', '.join(_COLUMNS)} FROM node"):  # noqa: S608
            total ^= _digest(*row)
        return total

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN EXCLUSIVE")
        self._sequences = {}
        try:
            yield
            for parent, sequence in self._sequences.items():
                self._db.execute(
                    "UPDATE node SET next_sequence = ? WHERE path = ?", (sequence, parent)
                )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _count(self, name: str) -> int:
        row = self._db.execute(
            "UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value", (name,)
        ).fetchone()
        return int(row[0])

    def get(self, path: str) -> Node:
        """Return the node at `path`; NoNode if it does not exist."""
        row = self._db.execute(
            "SELECT value, version, created, owner FROM node WHERE path = ?", (path,)
        ).fetchone()
        if row is None:
            raise NoNode(path)
        return Node(*row)

    def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes at `paths`, None for missing ones."""
        found: list[Node | None] = []
        for path in paths:
            try:
                found.append(self.get(path))
            except NoNode:
                found.append(None)
        return found

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a node's children; NoNode if it does not exist."""
        self.get(path)
        start = 1 if path == "/" else len(path) + 1
        rows = self._db.execute("SELECT path FROM node WHERE parent = ? ORDER BY path", (path,))
        return sorted(row[0][start:] for row in rows)

    def multi(self, operations: Sequence[Operation]) -> tuple[list[Result], list[str]]:
        """Perform all operations or none; return the results, and the paths to notify watchers
        of."""
        touched: list[str] = []
        with self._transaction():
            zxid = self._count("zxid")
            results = [self._apply(operation, zxid, touched) for operation in operations]
        return results, touched

    def create_with_parents(self, operation: Create) -> tuple[str, list[str]]:
        """Create a node and its missing parents (empty, persistent) in one transaction.

        Return the node's path, and the paths to notify watchers of.
        """
        touched: list[str] = []
        with self._transaction():
            zxid = self._count("zxid")
            missing = []
            parent = _parent(operation.path)
            while parent != "/" and not self._has(parent):
                missing.append(parent)
                parent = _parent(parent)
            for path in reversed(missing):
                self._create(Create(path, b""), zxid, touched)
            created = self._create(operation, zxid, touched)
        return created, touched

    def begin_session(self) -> int:
        """Begin a session for the following changes; return its number, which is new."""
        with self._transaction():
            self.session = self._count("session")
        return self.session

    def end_session(self) -> list[str]:
        """Delete this session's ephemeral nodes; return the paths to notify watchers of."""
        with self._transaction():
            rows = self._db.execute(
                "DELETE FROM node WHERE owner = ? RETURNING path", (self.session,)
            ).fetchall()
        return [path for row in rows for path in (row[0], _parent(row[0]))]

    def close(self) -> None:
        """Close the database file."""
        self._db.close()

    def _apply(self, operation: Operation, zxid: int, touched: list[str]) -> Result:
        match operation:
            case Create():
                return self._create(operation, zxid, touched)
            case Set():
                return self._set(operation, touched)
            case Delete():
                self._delete(operation, touched)
            case Check():
                self._at_version(operation.path, operation.version)
        return None

    def _create(self, operation: Create, zxid: int, touched: list[str]) -> str:
        path = operation.path
        parent = _parent(path)
        sequence = self._sequences.get(parent)
        if sequence is None:
            row = self._db.execute(
                "SELECT owner, next_sequence FROM node WHERE path = ?", (parent,)
            ).fetchone()
            if row is None or row[0] != 0:  # ephemeral nodes have no children, as in ZooKeeper
                raise NoNode(f"{parent} (parent of {path})")
            sequence = int(row[1])
        if operation.sequential:
            path = f"{path}{sequence:0{SEQUENCE_DIGITS}d}"
        made = self._db.execute(
            "INSERT INTO node VALUES (?, ?, ?, 0, ?, ?, 0) ON CONFLICT DO NOTHING",
            (path, parent, operation.value, zxid, self.session if operation.ephemeral else 0),
        )
        if not made.rowcount:
            raise NodeExists(path)
        self._sequences[parent] = sequence + 1
        touched += (path, parent)
        return path

    def _set(self, operation: Set, touched: list[str]) -> Node:
        node = self._at_version(operation.path, operation.version)
        self._db.execute(
            "UPDATE node SET value = ?, version = version + 1 WHERE path = ?",
            (operation.value, operation.path),
        )
        touched.append(operation.path)
        return Node(operation.value, node.version + 1, node.created, node.owner)

    def _delete(self, operation: Delete, touched: list[str]) -> None:
        path = operation.path
        self._at_version(path, operation.version)
        if (
            path == "/"
            or self._db.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone()
        ):
            raise NotEmpty(path)
        self._db.execute("DELETE FROM node WHERE path = ?", (path,))
        self._sequences.pop(path, None)
        touched += (path, _parent(path))

    def _at_version(self, path: str, version: int) -> Node:
        node = self.get(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path} is at version {node.version}, not {version}")
        return node

    def _has(self, path: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM node WHERE path = ?", (path,)).fetchone())


def _parent(path: str) -> str:
    """Return the parent path; '/' for top-level nodes."""
    return path.rpartition("/")[0] or "/"


def _digest(*row: str | bytes | int | None) -> int:
    """Return a node's digest as a signed 64-bit number."""
    parts = b"".join(b"%d:%b" % (len(part), part) for part in map(_bytes, row))
    return int(_SIGNED.unpack(blake2b(parts, digest_size=_SIGNED.size).digest())[0])


def _bytes(column: str | bytes | int | None) -> bytes:
    return column if isinstance(column, bytes) else repr(column).encode()

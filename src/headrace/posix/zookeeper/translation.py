"""Conversions between the store's and kazoo's nodes, operations and errors."""

from collections.abc import Sequence
from typing import Any, cast

from kazoo import exceptions

from headrace.ports.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionLost,
    Set,
    StoreError,
)
from headrace.posix.zookeeper.access import access

Result = Node | str | None

_ERRORS: dict[type[Exception], type[StoreError]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NoChildrenForEphemeralsError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
}
_LOST = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.AuthFailedError,
    exceptions.OperationTimeoutError,
)


def node_of(value: bytes | None, stat: Any) -> Node:
    """Return a Node from a znode's content and stat."""
    return Node(value or b"", stat.version, stat.czxid, stat.ephemeralOwner)


def store_error(error: Exception, path: str) -> StoreError:
    """Return the StoreError for a kazoo error at `path`."""
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(path)
    if isinstance(error, _LOST):
        return SessionLost(f"ZooKeeper: {type(error).__name__} at {path}")
    if isinstance(error, exceptions.NoAuthError):
        return StoreError(
            f"ZooKeeper: this broker has no access to {path}:"
            f" set zookeeper.digest.credentials to those that it was created with"
        )
    return StoreError(f"ZooKeeper: {error!r} at {path}")


def add_operation(transaction: Any, operation: Operation, *, set_acl: bool) -> None:
    """Add an operation to a kazoo transaction."""
    match operation:
        case Create(path, value, ephemeral, sequential):
            acl = access(path, set_acl=set_acl)
            transaction.create(path, value, acl, ephemeral, sequential)
        case Set(path, value, version):
            transaction.set_data(path, value, version)
        case Delete(path, version):
            transaction.delete(path, version)
        case Check(path, version):
            transaction.check(path, version)


def results_of(operations: Sequence[Operation], found: Sequence[Any]) -> list[Result]:
    """Return the results of a transaction; raise the error of the first operation that failed."""
    for operation, result in zip(operations, found, strict=True):
        if isinstance(result, Exception) and not isinstance(result, exceptions.RolledBackError):
            raise store_error(result, operation.path)
    return [_result(operation, result) for operation, result in zip(operations, found, strict=True)]


def _result(operation: Operation, result: Any) -> Result:
    match operation:
        case Create():
            return cast("str", result)
        case Set(_, value):
            return node_of(value, result)
    return None

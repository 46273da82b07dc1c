"""`access`: ACLs of znodes, as Kafka sets them (`zookeeper.set.acl`)."""

from typing import Any

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Znodes with passwords: readable only by their creator."""
_OPEN = "/consumers"
"""Written by old consumers without authentication."""


def access(path: str, *, set_acl: bool) -> list[Any]:
    """Return the ACL of a znode that is created at `path`."""
    if not set_acl or path == _OPEN:
        return list(OPEN_ACL_UNSAFE)
    if any(path == root or path.startswith(f"{root}/") for root in _SENSITIVE):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

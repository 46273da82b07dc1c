"""`AclStore`: ACLs in the store; any broker may change them, with a notice for all others."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from headrace.cluster.store import acl_znodes
from headrace.cluster.store.changed_node import KEEP, Unchanged, change_node
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import Create, Node, NodeExists, Store
from headrace.security.acl import AclEntry
from headrace.security.authorizer import Resource

_logger = logging.getLogger(__name__)

ENTRIES_MAX = 2000
"""Entries of one resource pattern at most; ZooKeeper refuses nodes over 1 MiB."""

Entries = frozenset[AclEntry]
_NONE: Entries = frozenset()


class Changed(NamedTuple):
    """A pattern's entries before and after a change."""

    before: Entries
    now: Entries


class AclStore:
    """The ACLs in the store: the trees `/kafka-acl` and `/kafka-acl-extended`."""

    def __init__(self, store: Store) -> None:
        """Use an open store."""
        self.store = store

    async def prepare(self) -> None:
        """Create the missing paths in one transaction."""
        wanted = dict.fromkeys(
            "/".join(parts[:count])
            for parts in (root.split("/") for root in acl_znodes.ROOTS)
            for count in range(2, len(parts) + 1)
        )
        while True:
            found = await self.store.get_all(list(wanted))
            missing = [
                Create(path, b"") for path, node in zip(wanted, found, strict=True) if node is None
            ]
            if not missing:
                return
            with suppress(NodeExists):  # another broker was faster: see what it left
                await self.store.multi(missing)

    async def all(self) -> dict[Resource, Entries]:
        """Return the entries of each pattern; a malformed node is logged and has none.

        The paths exist.
        """
        resources = [
            Resource(kind, name, pattern)
            for pattern, root in acl_znodes.ROOT_OF.items()
            for kind_word, kind in acl_znodes.KINDS.items()
            for name in await self.store.children(f"{root}/{kind_word}")
        ]
        return await self.of(resources)

    async def of(self, resources: Iterable[Resource]) -> dict[Resource, Entries]:
        """Return the entries of some patterns, as `all`."""
        paths = {acl_znodes.path_of(resource): resource for resource in resources}
        nodes = await self.store.get_all(list(paths))
        return {
            resource: _readable(path, node)
            for (path, resource), node in zip(paths.items(), nodes, strict=True)
        }

    async def change(self, resource: Resource, change: Callable[[Entries], Entries]) -> Changed:
        """Write the result of `change` as a resource pattern's entries, with a notice for brokers.

        Repeated on the new entries if another broker was faster. BadVersion: it kept being faster.
        BadPayload: the node is malformed, and stays. ApiError: too many entries.
        """
        path = acl_znodes.path_of(resource)
        done = Changed(_NONE, _NONE)

        def changed(value: bytes | None) -> bytes | Unchanged | None:
            nonlocal done
            before = _NONE if value is None else acl_znodes.decode_acls(path, value)
            wanted = change(before)
            done = Changed(before, wanted)
            if wanted == before:
                return KEEP
            if len(wanted) > max(len(before), ENTRIES_MAX):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"a resource pattern has at most {ENTRIES_MAX} ACLs: remove some that others"
                    " cover, such as those of a host beside those of every host",
                )
            return acl_znodes.encode_acls(wanted) if wanted else None

        notices = f"{acl_znodes.CHANGES_OF[resource.pattern]}/{acl_znodes.NOTICE}"
        notice = Create(notices, acl_znodes.encode_change(resource), sequential=True)
        await change_node(self.store, path, changed, notice)
        return done


def _readable(path: str, node: Node | None) -> Entries:
    if node is None:
        return _NONE
    try:
        return acl_znodes.decode_acls(path, node.value)
    except BadPayload as error:
        _logger.error(
            "the ACLs of a resource pattern neither allow nor deny access, as their node is"
            " malformed: correct or delete it: %s",
            error,
        )
        return _NONE

"""`change_node`: change a node of the store without lost updates, with a notice for all brokers.

Any broker may do it: the node is read, changed and written with the version that was read, and this
is repeated if another broker was faster.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

from headrace.ports.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Store,
)

ATTEMPTS_MAX = 20
"""How often a change is tried because others change the node at the same time."""


class Unchanged(Enum):
    """Returned by a change that leaves the node as it is."""

    KEEP = "keep"


KEEP = Unchanged.KEEP
Change = Callable[[bytes | None], bytes | Unchanged | None]
"""From a node's value (None: it does not exist) to the new value (None: delete it)."""


async def change_node(
    store: Store,
    path: str,
    change: Change,
    notice: Create,
    *,
    owner: str | None = None,
    above: Sequence[str] = (),
) -> None:
    """Write the result of `change` to the node at `path`, with `notice` for all brokers.

    `owner`: a node that must exist (else NoNode). `above`: parents that are created if the node is
    new. BadVersion: other brokers kept being faster. Errors of `change` are passed on. A store that
    is not shared gets no notice.
    """
    for _ in range(ATTEMPTS_MAX):
        node, owning = await store.get_all([path, owner or path])
        if owner is not None and owning is None:
            raise NoNode(owner)
        wanted = change(None if node is None else node.value)
        if isinstance(wanted, Unchanged) or (wanted is None and node is None):
            return
        if node is None:
            for parent in above:
                with suppress(NodeExists):
                    await store.create(parent, b"")
        operations = [_operation(path, wanted, node)]
        if owner is not None:
            operations.append(Check(owner, ANY_VERSION))
        if store.shared:
            operations.append(notice)
        with suppress(BadVersion, NodeExists, NoNode):
            await store.multi(operations)
            return
    raise BadVersion(path)


def _operation(path: str, wanted: bytes | None, node: Node | None) -> Operation:
    if node is None:
        return Create(path, wanted or b"")
    if wanted is None:
        return Delete(path, node.version)
    return Set(path, wanted, node.version)

"""One node changed by whichever broker was asked, with a notice for all, so that no change is lost.

Read, changed, and written with the version that was read; anew where another broker was faster.
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
"""How often a change is made anew because others change the node at the same time."""


class Unchanged(Enum):
    """What a change returns that leaves the node as it is."""

    KEEP = "keep"


KEEP = Unchanged.KEEP
Change = Callable[[bytes | None], bytes | Unchanged | None]
"""From what a node holds, None: there is none, to what it shall hold, None: it shall go."""


async def change_node(
    store: Store,
    path: str,
    change: Change,
    notice: Create,
    *,
    owner: str | None = None,
    above: Sequence[str] = (),
) -> None:
    """Write what `change` makes of the node at `path`, and tell all brokers by `notice`.

    `owner`: a node without which this one is not to be: NoNode. `above`: nodes that are made first
    where this one is new. BadVersion: others keep changing it. What `change` raises is passed on.
    A store that nobody shares is told no notice.
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

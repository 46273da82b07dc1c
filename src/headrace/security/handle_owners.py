"""Owners of handles: ids of group members, which other users may see but must not use.

The first principal that a coordinator accepts under a handle owns it; no other principal may use
it, whatever its permissions. Owners are not stored: after a coordinator moves they are learned
again.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.security.identity import Principal

HANDLES_MAX = 50_000
"""Maximum handles with known owners; beyond it, the least recently used one loses its owner."""

Handle = tuple[str, str]
"""Group id and member id."""


class HandleOwners:
    """The owners of handles. Called on the deciding thread."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._owners: OrderedDict[Handle, Principal] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def is_anothers(self, handle: Handle, principal: "Principal") -> bool:
        """Return whether another principal owns the handle."""
        owner = self._owners.get(handle)
        return owner is not None and owner != principal

    def learn(self, handle: Handle, principal: "Principal") -> None:
        """Record that the coordinator accepted `principal` under the handle."""
        self._owners[handle] = principal
        self._owners.move_to_end(handle)
        if len(self._owners) > HANDLES_MAX:
            self._owners.popitem(last=False)

    def forget(self, handle: Handle) -> None:
        """Remove a handle that is no longer valid."""
        self._owners.pop(handle, None)

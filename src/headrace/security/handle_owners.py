"""Whose a handle is: the ids of members, which others may learn and must not use.

A handle is his who names it first and is accepted by it. Nobody else may speak by it, whatever his
permissions are. Who owns what is not written down: after a coordinator's move it is learned anew.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.security.identity import Principal

HANDLES_MAX = 50_000
"""Handles whose owners are known; beyond, the longest unused is anybody's again."""

Handle = tuple[str, str]
"""A group's id and a member's."""


class HandleOwners:
    """The owners of handles. On the deciding thread."""

    def __init__(self) -> None:
        """Nobody owns anything."""
        self._owners: OrderedDict[Handle, Principal] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def is_anothers(self, handle: Handle, principal: "Principal") -> bool:
        """Tell whether somebody else owns it."""
        owner = self._owners.get(handle)
        return owner is not None and owner != principal

    def learn(self, handle: Handle, principal: "Principal") -> None:
        """Note that `principal` was accepted by it."""
        self._owners[handle] = principal
        self._owners.move_to_end(handle)
        if len(self._owners) > HANDLES_MAX:
            self._owners.popitem(last=False)

    def forget(self, handle: Handle) -> None:
        """Note that it is no handle any more."""
        self._owners.pop(handle, None)

"""The interfaces that share groups need in addition to the group's shard."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.coordination.share.state_port import ShareStatePort


@dataclass(slots=True)
class ShareContext:
    """The share state store, and the maximum number of members of a share group."""

    states: "ShareStatePort"
    members_max: Callable[[], int]

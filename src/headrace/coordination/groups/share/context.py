"""What share groups stand on, beside the shard that a group lives in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.coordination.share.share_states import ShareStates


@dataclass(slots=True)
class ShareContext:
    """What the verbs need beside the shard that the group lives in."""

    states: "ShareStates"
    members_max: Callable[[], int]

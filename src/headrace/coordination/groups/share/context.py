"""What share groups stand on, beside the shard that a group lives in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.coordination.share.state_port import ShareStatePort


@dataclass(slots=True)
class ShareContext:
    """What the verbs need beside the shard that the group lives in."""

    states: "ShareStatePort"
    members_max: Callable[[], int]

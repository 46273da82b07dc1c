"""What differs between the brokers and stays so, each with its reason.

It is taken away only where a step's outputs differ, and the run says where it was.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stay:
    """One difference: `pattern` in a line is replaced by `shown`; a line left empty is gone."""

    reason: str
    pattern: re.Pattern[str]
    shown: str

    def applied(self, lines: Sequence[str]) -> list[str]:
        """The lines without it."""
        found = (" ".join(self.pattern.sub(self.shown, line).split()) for line in lines)
        return [line for line in found if line]


_WORDS = "the words of a refusal are each broker's own; what it is, is compared"
_OFFLOAD = "a group's assignor.offload.enable can be set in Kafka 4.3.1 too, which does not list it"
_SHARE_STATE = "log.retention.bytes of a broker does not apply to share groups' state"
_TIERED = "no tiered storage: no broker's key stands behind log.local.retention"
STAYS = tuple(
    Stay(reason, re.compile(pattern), shown)
    for reason, pattern, shown in (
        (_OFFLOAD, r"^(consumer|share|streams)\.assignor\.offload\.enable=true .*", ""),
        (_SHARE_STATE, r"^retention\.bytes=-1 .*\{DYNAMIC_TOPIC_CONFIG:.*", ""),
        (_TIERED, r"DEFAULT_CONFIG:log\.local\.retention\.(bytes|ms)=-2", ""),
        (_WORDS, r"((?:\w+\.)+(\w+(?:Exception|Error))): .*", r"\2"),
        (_WORDS, r"(Error while executing [\w ]+ command :) .*", r"\1"),
    )
)


def left(ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """The reasons for which two outputs differ; None where they differ in more."""
    reasons: list[str] = []
    for stay in STAYS:
        if list(ours) == list(theirs):
            break
        before = list(ours), list(theirs)
        ours, theirs = stay.applied(ours), stay.applied(theirs)
        if (ours, theirs) != before and stay.reason not in reasons:
            reasons.append(stay.reason)
    return reasons if list(ours) == list(theirs) else None

"""The line that the audit log has of a change, whichever protocol it came by."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.operations.permissions import Caller
    from headrace.security.audit import Audit

SHOWN_CHARACTERS = 200
_TOLD_ELSEWHERE = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Errors of calls that were refused for lack of permission, which has its own line already."""


def tell_change(
    audit: "Audit", caller: "Caller", result: int, detail: Mapping[str, object]
) -> None:
    """Write the line of one change, unless it was refused for lack of permission.

    `result`: an error code; 0: it was changed. `detail`: names and texts, no secrets; None is left
    out.
    """
    if result in _TOLD_ELSEWHERE:
        return
    known = result in ErrorCode.__members__.values()
    audit.changed(
        caller.identity,
        by=caller.by or caller.surface.value,
        result=ErrorCode(result).name if known else str(int(result)),
        done=result == 0,
        **detail,
    )


def shortened(text: str) -> str | None:
    """Return a text that a line has room for; None where there is nothing to say."""
    if len(text) > SHOWN_CHARACTERS:
        return f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
    return text or None


def shown_fields(asked: Mapping[str, object], public: Collection[str]) -> str:
    """Return the fields of a call as a line has them, shortened; values of public ones alone."""
    shown = (f"{name}={value if name in public else '***'}" for name, value in asked.items())
    return ",".join(shown)[:SHOWN_CHARACTERS]

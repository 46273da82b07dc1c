"""The audit line of an administrative change, the same for every protocol."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.operations.permissions import Caller
    from headrace.security.audit import Audit

SHOWN_CHARACTERS = 200
"""Longest value in an audit line, in characters."""
_TOLD_ELSEWHERE = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Errors without a line here: the authorizer's refusal has already written one."""


def tell_change(
    audit: "Audit", caller: "Caller", result: int, detail: Mapping[str, object]
) -> None:
    """Write the audit line of one change, unless it was refused for lack of permission.

    `result`: an error code; 0: it was changed. `detail`: fields of the line, without secrets; a
    None value is left out.
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
    """Return `text` cut to `SHOWN_CHARACTERS` with its full length noted; None if it is empty."""
    if len(text) > SHOWN_CHARACTERS:
        return f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
    return text or None


def shown_fields(asked: Mapping[str, object], public: Collection[str]) -> str:
    """Return a call's fields as one text of `SHOWN_CHARACTERS` at most; hide non-public values."""
    shown = (f"{name}={value if name in public else '***'}" for name, value in asked.items())
    return ",".join(shown)[:SHOWN_CHARACTERS]

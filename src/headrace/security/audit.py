"""Audit log: refused operations and administrative changes, one line each.

Any client can cause refusals, so their lines are limited: the same refusal is logged once per
`PERIOD_SECONDS`, and in a period a peer has at most `LINES_OF_ONE` lines and all together
`LINES_OF_ALL`. Changes have separate, wider limits. Suppressed lines are counted, and the count is
logged at the end of the period.
"""

import logging
from typing import TYPE_CHECKING

from headrace.observe.logs import fields

if TYPE_CHECKING:
    from headrace.ports.clock import Clock
    from headrace.security.authorizer import Operation, Resource
    from headrace.security.identity import Identity, Principal

_logger = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
LINES_OF_ONE = 10
LINES_OF_ALL = 100
CHANGES_OF_ONE = 1000
"""Maximum lines of changes by one principal in a period: enough for an administrator's scripts, too
few to fill the disk. At most `LINES_OF_ALL` principals have any."""


class Audit:
    """Writes the audit log with rate limits. Called on the deciding thread."""

    def __init__(self, clock: "Clock") -> None:
        """Create an audit log without history."""
        self._clock = clock
        self._told: set[tuple[object, ...]] = set()
        self._lines: dict[tuple[Principal, str], int] = {}
        self._left_out = 0
        self._changes: dict[Principal, int] = {}
        self._changes_left_out = 0
        self._began = False

    def refused(self, identity: "Identity", operation: "Operation", resource: "Resource") -> None:
        """Log a refused operation, unless the same refusal was logged in this period."""
        self._refused(
            identity,
            operation=operation.name,
            resource=f"{resource.kind.name}:{resource.name}",
        )

    def unauthenticated(self, identity: "Identity", *, by: str, **why: str | None) -> None:
        """Log a request whose credentials were refused, unless the same was logged in this period.

        `by`: the request's name; `why`: fields of the line, left out if None.
        """
        self._refused(identity, by=by, **why)

    def _refused(self, identity: "Identity", **what: str | None) -> None:
        self._begin()
        refusal = (identity, *what.items())
        who = (identity.principal, identity.host)
        lines = self._lines.get(who, 0)
        if refusal in self._told or lines >= LINES_OF_ONE or len(self._told) >= LINES_OF_ALL:
            self._left_out += 1
            return
        self._told.add(refusal)
        self._lines[who] = lines + 1
        _logger.warning("refused %s", fields(**_who(identity), **what))

    def changed(
        self, identity: "Identity", *, by: str, result: str, done: bool, **what: object
    ) -> None:
        """Log an administrative change, or a failed attempt: the API, the object and the result.

        `by`: the API's name; `what`: fields of the line, left out if None.
        """
        self._begin()
        principal = identity.principal
        lines = self._changes.get(principal, 0)
        if lines >= CHANGES_OF_ONE or (lines == 0 and len(self._changes) >= LINES_OF_ALL):
            self._changes_left_out += 1
            return
        self._changes[principal] = lines + 1
        _logger.info(
            "%s %s",
            "changed" if done else "not changed",
            fields(**_who(identity), by=by, **what, result=result),
        )

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            self._clock.call_later(PERIOD_SECONDS, self._end_period)

    def _end_period(self) -> None:
        left_out = self._left_out
        self._told.clear()
        self._lines.clear()
        changes_left_out, self._changes_left_out = self._changes_left_out, 0
        self._changes.clear()
        self._left_out = 0
        self._began = False
        if changes_left_out:
            _logger.warning(
                "%d further changes within %.0f s are not logged individually",
                changes_left_out,
                PERIOD_SECONDS,
            )
        if left_out:
            _logger.warning(
                "%d further refusals within %.0f s are not logged individually",
                left_out,
                PERIOD_SECONDS,
            )


def _who(identity: "Identity") -> dict[str, object]:
    return {
        "principal": identity.principal,
        "host": identity.host,
        "listener": identity.listener,
    }

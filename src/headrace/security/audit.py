"""The audit log: who was refused what, from where, and who changed what; one line each.

Refusals are what anybody can cause, so their lines are bounded: the same refusal is told once in
`PERIOD_SECONDS`, one peer has `LINES_OF_ONE` lines in it and all together `LINES_OF_ALL`. Changes
have bounds of their own, wider ones. What is left out is counted, and told in one line at the
period's end.
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
"""Lines of changes that one principal has in a period: an administrator's scripts fit, and nobody
can fill the disk. `LINES_OF_ALL` principals have some."""


class Audit:
    """What a broker says of who may do what. On the deciding thread."""

    def __init__(self, clock: "Clock") -> None:
        """Nothing has been refused yet."""
        self._clock = clock
        self._told: set[tuple[Identity, Operation, Resource]] = set()
        self._lines: dict[tuple[Principal, str], int] = {}
        self._left_out = 0
        self._changes: dict[Principal, int] = {}
        self._changes_left_out = 0
        self._began = False

    def refused(self, identity: "Identity", operation: "Operation", resource: "Resource") -> None:
        """Say that somebody may not do what he asked for, if that is not said already."""
        self._begin()
        refusal = (identity, operation, resource)
        who = (identity.principal, identity.host)
        lines = self._lines.get(who, 0)
        if refusal in self._told or lines >= LINES_OF_ONE or len(self._told) >= LINES_OF_ALL:
            self._left_out += 1
            return
        self._told.add(refusal)
        self._lines[who] = lines + 1
        _logger.warning(
            "refused %s",
            fields(
                **_who(identity),
                operation=operation.name,
                resource=f"{resource.kind.name}:{resource.name}",
            ),
        )

    def changed(
        self, identity: "Identity", *, by: str, result: str, done: bool, **what: object
    ) -> None:
        """Say that somebody changed something, or tried to: by which API, what, and the outcome.

        Values that are None are left out.
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
                "%d more changes of the last %.0f s have no line of their own",
                changes_left_out,
                PERIOD_SECONDS,
            )
        if left_out:
            _logger.warning(
                "%d more refusals of the last %.0f s have no line of their own",
                left_out,
                PERIOD_SECONDS,
            )


def _who(identity: "Identity") -> dict[str, object]:
    return {
        "principal": identity.principal,
        "host": identity.host,
        "listener": identity.listener,
    }

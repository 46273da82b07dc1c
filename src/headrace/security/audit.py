"""The audit log: who was refused what, from where, and who changed what; one line each.

Refusals are what anybody can cause, so their lines are bounded: the same refusal is told once in
`PERIOD_SECONDS`, one peer has `LINES_OF_ONE` lines in it and all together `LINES_OF_ALL`. What is
left out is counted, and told in one line at the period's end.
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


class Audit:
    """What a broker says of who may do what. On the deciding thread."""

    def __init__(self, clock: "Clock") -> None:
        """Nothing has been refused yet."""
        self._clock = clock
        self._told: set[tuple[Identity, Operation, Resource]] = set()
        self._lines: dict[tuple[Principal, str], int] = {}
        self._left_out = 0
        self._began = False

    def refused(self, identity: "Identity", operation: "Operation", resource: "Resource") -> None:
        """Say that somebody may not do what he asked for, if that is not said already."""
        if not self._began:
            self._began = True
            self._clock.call_later(PERIOD_SECONDS, self._end_period)
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

    def changed(self, identity: "Identity", what: str, **values: object) -> None:
        """Say that somebody changed something: what was done, and to what."""
        _logger.info("%s %s", what, fields(**_who(identity), **values))

    def _end_period(self) -> None:
        left_out = self._left_out
        self._told.clear()
        self._lines.clear()
        self._left_out = 0
        self._began = False
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

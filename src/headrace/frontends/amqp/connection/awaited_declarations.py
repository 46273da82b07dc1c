"""`AwaitedDeclarations`: holds new connections while the declarations of a cluster are not loaded.

loaded ──► connections are served at once
not loaded ──► their input is held, LOAD_SECONDS_MAX at most ──► served; a vhost that is not
                                                                 loaded then refuses them
"""

import logging
from collections.abc import Callable

from headrace.frontends.amqp.connection.input_holds import InputHolds
from headrace.ports.clock import Clock

log = logging.getLogger(__name__)

LOAD_SECONDS_MAX = 5.0
"""Seconds for which a connection waits: less than clients wait for the handshake."""
LOOK_SECONDS = 0.02
"""Seconds between two looks whether the declarations are loaded."""


class AwaitedDeclarations:
    """The connections that wait. On the deciding thread."""

    def __init__(self, clock: Clock, are_loaded: Callable[[], bool]) -> None:
        """Begin without connections."""
        self._clock = clock
        self._are_loaded = are_loaded
        self._held: dict[InputHolds, float] = {}
        """The held connections, and when each has waited for long enough."""
        self._refusing = False

    def hold(self, connection: InputHolds) -> None:
        """Hold the input of a new connection, unless the declarations are loaded."""
        if self._are_loaded():
            return
        connection.add(1)
        if not self._held:
            self._look_later()
        self._held[connection] = self._clock.monotonic() + LOAD_SECONDS_MAX

    def _look_later(self) -> None:
        self._clock.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Serve the connections that have waited for long enough, or all."""
        are_loaded, now = self._are_loaded(), self._clock.monotonic()
        if are_loaded:
            self._refusing = False
        for connection, until in tuple(self._held.items()):
            if are_loaded or until <= now:
                if not are_loaded and not self._refusing:
                    self._refusing = True
                    log.warning(
                        "declarations of AMQP are not loaded after %g s: connections to vhosts that"
                        " are down are refused (541). Brokers that have replicas of"
                        " __amqp.declarations must run",
                        LOAD_SECONDS_MAX,
                    )  # fmt: skip
                del self._held[connection]
                connection.end()
        if self._held:
            self._look_later()

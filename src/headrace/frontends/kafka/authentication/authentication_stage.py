"""Requests that are allowed before authentication, on listeners that require it.

Frames and times are limited more strictly until then: `net.limits`. A PLAINTEXT listener has no
such stage, and on an SSL listener authentication is complete before the first frame.
"""

from typing import TYPE_CHECKING

from headrace.config.listeners import SASL_PROTOCOLS
from headrace.frontends.kafka.authentication.stage import Stage
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.config.listeners import Listener
    from headrace.frontends.kafka.connection.route import Route

APIS = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


def listeners_with(listeners: "Iterable[Listener]") -> frozenset[str]:
    """Return the names of the listeners whose connections must authenticate by SASL."""
    return frozenset(listener.name for listener in listeners if listener.protocol in SASL_PROTOCOLS)


def routes_in(routes: "Mapping[int, Route]") -> "dict[Stage, dict[int, Route]]":
    """Return the routes of the requests allowed in each stage but DONE, which has all."""
    first = {code: route for code, route in routes.items() if route.key in APIS}
    again = {code: route for code, route in first.items() if route.key == ApiKey.SASL_HANDSHAKE}
    return {
        Stage.FIRST: first,
        Stage.TOKENS: first,
        Stage.RAW: {},
        Stage.EXPIRED: again,
        Stage.FAILED: {},
    }

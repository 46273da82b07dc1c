"""The HTTP listener (`metrics.listener`) of one broker: its routes and its TLS."""

from typing import TYPE_CHECKING

from headrace.config.tls_settings import metrics_tls
from headrace.frontends.http import routes
from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import HttpRouter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.broker.broker import Broker
    from headrace.config.broker import BrokerConfig
    from headrace.frontends.http.scrape import Scrape
    from headrace.net.listener import Under
    from headrace.server.listeners import Doors


def endpoint(
    broker: "Broker",
    scrape: "Scrape",
    healthy: "Callable[[], bool]",
    awaited: "Callable[[], Awaitable[Sequence[str]]]",
    fatal: "Callable[[Exception], None]",
) -> Endpoint:
    """Return the HTTP endpoint with all routes; it is not listening yet.

    `healthy` answers /health, `awaited` lists what /ready waits for, `fatal` receives a broken
    invariant.
    """
    served = [*routes.watching(scrape, healthy, awaited), *routes.operating(broker)]
    return Endpoint(HttpRouter(served), fatal)


def under(config: "BrokerConfig", doors: "Doors") -> "Under | None":
    """Return the factory that adds TLS to the listener's connections; None for plain text."""
    if doors.tls is None or metrics_tls(config.values, config.listeners) is None:
        return None
    return doors.tls.factory

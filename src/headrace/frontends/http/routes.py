"""The paths of the HTTP server, each with its handler."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, json_of, text
from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.http.scrape import Scrape
    from headrace.operations.describe_cluster import ClusterDescription

_WATCHING = ("/", "/metrics", "/healthz", "/ready")
_CLUSTER = "/api/v1/cluster"
PATHS = (*_WATCHING, _CLUSTER)
"""All paths that the server has."""
_STATUS = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403}
"""HTTP status of an operation's error; others are 503."""


def watching(
    scrape: "Scrape",
    healthy: Callable[[], bool],
    awaited: Callable[[], Awaitable[Sequence[str]]] | None = None,
) -> list[HttpRoute]:
    """Return the routes for monitoring, which need no permission.

    `awaited` returns the conditions that readiness waits for, a line each; None: always ready.
    """

    async def index(_: HttpRequest) -> HttpReply:
        return text(200, "headrace: /metrics /healthz /ready")

    async def metrics(_: HttpRequest) -> HttpReply:
        from headrace.frontends.http.exposition import CONTENT_TYPE

        return HttpReply(200, await scrape.text(), CONTENT_TYPE)

    async def health(_: HttpRequest) -> HttpReply:
        return text(200, "ok") if healthy() else text(503, "not healthy")

    async def ready(_: HttpRequest) -> HttpReply:
        lines = () if awaited is None else await awaited()
        said = "\n".join([f"awaited: {line}" for line in lines] or ["ready"])
        return text(503 if lines else 200, said)

    handlers = (index, metrics, health, ready)
    return [HttpRoute("GET", *pair) for pair in zip(_WATCHING, handlers, strict=True)]


def operating(broker: "Broker") -> list[HttpRoute]:
    """Return the routes of operations; each checks a permission (`operations.permissions`)."""

    async def cluster(request: HttpRequest) -> HttpReply:
        # Imported with the first request: a broker that is only scraped does not load them.
        from headrace.operations.describe_cluster import describe_cluster
        from headrace.operations.permissions import Caller, Surface

        caller = Caller(request.identity, Surface.HTTP)
        try:
            return json_of(200, _cluster(describe_cluster(broker, caller)))
        except ApiError as error:
            return json_of(_STATUS.get(error.code, 503), _problem(error))

    return [HttpRoute("GET", _CLUSTER, cluster)]


def _cluster(found: "ClusterDescription") -> dict[str, object]:
    return {
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": [
            {
                "id": broker.broker_id,
                "rack": broker.rack,
                "endpoints": [endpoint._asdict() for endpoint in broker.endpoints],
            }
            for broker in found.brokers
        ],
    }


def _problem(error: ApiError) -> dict[str, object]:
    return {"error": error.code.name, "message": str(error)}

"""DescribeClientQuotas (key 48, v0-v1): return quotas of users, clients and addresses (KIP-546).

A filter component names an entity's type and matches one name, the default entity, or any name.
With `strict`, entities that have further types are left out.

v1 flexible
"""

from collections.abc import Iterator
from enum import IntEnum

from headrace.cluster.settings.quota_settings import entity_names
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_CLUSTER_CONFIGS,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode

_TYPES = ("user", "client-id", "ip")


class _Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeClientQuotas with all entities that match the filter."""
    make = maker(context)
    try:
        require(context, DESCRIBE_CLUSTER_CONFIGS)
        wanted = dict(_filter(request))
    except ApiError as error:
        return make(None, entries=(), **error_fields(error))
    entries = []
    for entity, limits in context.broker.quotas.limits.items():
        names = dict(entity_names(entity))
        others = len(names) != len(wanted)
        if (request.strict and others) or not all(
            kind in names and (match is _Match.ANY or names[kind] == name)
            for kind, (match, name) in wanted.items()
        ):
            continue
        entries.append(_entry(make, names, limits))
    return make(None, entries=tuple(entries), **error_fields(None))


def _filter(request: Entity) -> Iterator[tuple[str, tuple[_Match, str | None]]]:
    """Yield (entity type, (kind of match, name or None)) of a filter. ApiError as in Kafka."""
    seen: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {kind} cannot appear more than once in the filter.",
            )
        if kind not in _TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        seen.add(kind)
        try:
            match = _Match(component.match_type)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}"
            ) from None
        if (component.match is None) == (match is _Match.EXACT):
            with_what = (
                "set match string to null" if component.match is None else "has a match string"
            )
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Request specified {match.name}, but {with_what}."
            )
        yield kind, (match, component.match)
    if "ip" in seen and len(seen) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        )


def _entry(make: Make, names: dict[str, str | None], limits: dict[str, float]) -> Entity:
    return make(
        "EntryData",
        entity=tuple(
            make("EntityData", entity_type=kind, entity_name=name) for kind, name in names.items()
        ),
        values=tuple(make("ValueData", key=key, value=value) for key, value in limits.items()),
    )

"""DescribeConfigs (key 32, v1-v4): return settings and their sources.

Of topics, brokers, their loggers, groups and client metrics subscriptions. A broker is named by its
id; the empty name stands for the default of all brokers. Sensitive values are null.

Versions: v1 sources and synonyms · v3 types and documentation · v4 flexible
"""

from typing import TYPE_CHECKING

from headrace.config.descriptions import ConfigEntry
from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, Make, error_fields, maker
from headrace.model.errors import ApiError
from headrace.operations.configs import describe_configs

if TYPE_CHECKING:
    from collections.abc import Sequence


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeConfigs with one result per resource, in the order asked."""
    make = maker(context)
    own = operating(context)
    documented = getattr(request, "include_documentation", False)
    results = []
    for resource in request.resources:
        entries: Sequence[ConfigEntry] = ()
        problem = None
        try:
            entries = describe_configs(own, resource.resource_type, resource.resource_name)
        except ApiError as error:
            problem = error
        wanted = frozenset(resource.configuration_keys or ())
        configs = tuple(
            _entry(make, entry, request.include_synonyms, documented)
            for entry in entries
            if not wanted or entry.name in wanted
        )
        results.append(
            make(
                "DescribeConfigsResult",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
                **error_fields(problem),
            )
        )
    return make(None, results=tuple(results))


def _entry(make: Make, entry: ConfigEntry, synonyms: bool, documented: bool) -> Entity:
    found = (
        tuple(
            make(
                "DescribeConfigsSynonym",
                name=synonym.name,
                value=synonym.value,
                source=int(synonym.source),
            )
            for synonym in entry.synonyms
        )
        if synonyms
        else ()
    )
    return make(
        "DescribeConfigsResourceResult",
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.definition.sensitive,
        synonyms=found,
        config_type=int(entry.definition.kind),
        documentation=(entry.definition.doc or None) if documented else None,
    )

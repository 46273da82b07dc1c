"""DescribeConfigs (key 32, v1-v4): return settings and their sources.

Of topics, brokers, their loggers, groups and client metrics subscriptions.
Brokers by their id; by the empty name what is set for all of them. Sensitive values are null.
v1 sources and synonyms · v3 types and documentation · v4 flexible
"""

from collections.abc import Sequence

from headrace.config.descriptions import ConfigEntry, ConfigSource
from headrace.config.value_types import Definition, Kind
from headrace.frontends.kafka.admin.config_resources import (
    ResourceType,
    check_allowed,
    check_broker_name,
    described_name,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import topic_name_problem
from headrace.observe import logs
from headrace.security.authorizer import Operation


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per resource, in the order asked."""
    make = maker(context)
    documented = getattr(request, "include_documentation", False)
    results = []
    for resource in request.resources:
        entries: Sequence[ConfigEntry] = ()
        problem = None
        try:
            check_allowed(context, resource, Operation.DESCRIBE_CONFIGS)
            entries = _entries(context, resource)
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


def _entries(context: RequestContext, resource: Entity) -> Sequence[ConfigEntry]:
    settings = context.controller.settings
    name: str = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        problem = topic_name_problem(name)
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return settings.describe_topic(name)
    if resource.resource_type == ResourceType.BROKER:
        return settings.describe_broker(name)
    if resource.resource_type == ResourceType.GROUP:
        return settings.groups.describe(name)
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        return settings.client_metrics.describe(name)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_broker_name(context, name)
        return [_logger_entry(logger, level) for logger, level in logs.levels().items()]
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"{described_name(resource.resource_type)} has no settings here"
    )


def _logger_entry(name: str, level: str) -> ConfigEntry:
    definition = Definition(name, Kind.UNKNOWN, None, "")
    return ConfigEntry(definition, level, ConfigSource.BROKER_LOGGER, False, ())


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

"""Settings of topics, brokers, their loggers, groups and client metrics subscriptions, altered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.config.client_settings import HIDDEN
from headrace.config.definitions import TOPIC, broker_definition
from headrace.config.descriptions import (
    Alteration,
    AlterOperation,
    Change,
    ConfigEntry,
    ConfigSource,
)
from headrace.config.keys.entities import CLIENT_METRICS, GROUP
from headrace.config.value_types import Definition, Kind
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import topic_name_problem
from headrace.observe import logs
from headrace.operations.audit import shortened
from headrace.operations.permissions import AdminOperation
from headrace.operations.reserved_topics import check_not_reserved
from headrace.security.authorizer import CLUSTER_NAME

if TYPE_CHECKING:
    from headrace.operations.context import OperationContext


class ConfigResource(IntEnum):
    """The resources that can have settings, as Kafka's protocol numbers them."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigEdit(NamedTuple):
    """A setting to be altered."""

    name: str
    value: str | None
    operation: int = AlterOperation.SET


class ResourceEdits(NamedTuple):
    """A resource and the settings of it that are altered."""

    kind: int
    """A `ConfigResource`; any other number is refused."""
    name: str
    edits: Sequence[ConfigEdit]


_ALTER: Mapping[int, AdminOperation] = {
    ConfigResource.TOPIC: AdminOperation.ALTER_TOPIC_CONFIGS,
    ConfigResource.GROUP: AdminOperation.ALTER_GROUP_CONFIGS,
    ConfigResource.BROKER: AdminOperation.ALTER_CLUSTER_CONFIGS,
    ConfigResource.BROKER_LOGGER: AdminOperation.ALTER_CLUSTER_CONFIGS,
    ConfigResource.CLIENT_METRICS: AdminOperation.ALTER_CLUSTER_CONFIGS,
}
_DESCRIBE: Mapping[int, AdminOperation] = {
    ConfigResource.TOPIC: AdminOperation.DESCRIBE_TOPIC_CONFIGS,
    ConfigResource.GROUP: AdminOperation.DESCRIBE_GROUP_CONFIGS,
    ConfigResource.BROKER: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
    ConfigResource.BROKER_LOGGER: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
    ConfigResource.CLIENT_METRICS: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
}
_OF_CLUSTER = frozenset(
    {AdminOperation.ALTER_CLUSTER_CONFIGS, AdminOperation.DESCRIBE_CLUSTER_CONFIGS}
)
_DEFINITIONS: Mapping[int, Mapping[str, Definition]] = {
    ConfigResource.TOPIC: TOPIC,
    ConfigResource.CLIENT_METRICS: CLIENT_METRICS,
    ConfigResource.GROUP: GROUP,
}
_VERBS = ("SET", "DELETE", "APPEND", "SUBTRACT")


async def alter_configs(
    context: "OperationContext",
    resources: Sequence[ResourceEdits],
    *,
    whole: bool = False,
    validate_only: bool = False,
) -> list[ApiError | None]:
    """Alter each resource for itself; returns each error, None where it was altered.

    `whole`: the edits are all settings of the resource, and others are removed.
    """
    times = Counter((resource.kind, resource.name) for resource in resources)
    outcomes: list[ApiError | None] = []
    for resource in resources:
        problem = None
        try:
            if times[resource.kind, resource.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_allowed(context, _ALTER.get(resource.kind), resource.name)
            change = _all_of(resource) if whole else _single(resource)
            await _alter_one(context, resource, change, validate_only)
        except ApiError as error:
            problem = error
        outcomes.append(problem)
    if not validate_only:
        _audit(context, resources, outcomes)
    return outcomes


def describe_configs(context: "OperationContext", kind: int, name: str) -> Sequence[ConfigEntry]:
    """Return all settings of a resource: brokers by id, or by "" those set for all. ApiError."""
    _check_allowed(context, _DESCRIBE.get(kind), name)
    settings = context.controller.settings
    if kind == ConfigResource.TOPIC:
        problem = topic_name_problem(name)
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return settings.describe_topic(name)
    if kind == ConfigResource.BROKER:
        return settings.describe_broker(name)
    if kind == ConfigResource.GROUP:
        return settings.groups.describe(name)
    if kind == ConfigResource.CLIENT_METRICS:
        return settings.client_metrics.describe(name)
    if kind == ConfigResource.BROKER_LOGGER:
        _check_broker_name(context, name)
        return [_logger_entry(logger, level) for logger, level in logs.levels().items()]
    raise _no_settings(kind)


def _logger_entry(name: str, level: str) -> ConfigEntry:
    definition = Definition(name, Kind.UNKNOWN, None, "")
    return ConfigEntry(definition, level, ConfigSource.BROKER_LOGGER, False, ())


def _check_allowed(context: "OperationContext", asks: AdminOperation | None, name: str) -> None:
    """Refuse a caller without permission. A type that has no settings is refused for that."""
    if asks is not None:
        context.require(asks, CLUSTER_NAME if asks in _OF_CLUSTER else name)


def _no_settings(kind: int) -> ApiError:
    try:
        described = ConfigResource(kind).name.lower().replace("_", " ")
    except ValueError:
        described = f"resource type {kind}"
    return ApiError(ErrorCode.INVALID_REQUEST, f"{described} has no settings here")


def _all_of(resource: ResourceEdits) -> dict[str, str | None]:
    settings: dict[str, str | None] = {}
    for edit in resource.edits:
        if edit.name in settings:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{edit.name} is there twice")
        settings[edit.name] = edit.value
    return settings


def _single(resource: ResourceEdits) -> list[Alteration]:
    changes = []
    for name, value, number in resource.edits:
        try:
            operation = AlterOperation(number)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}: operation {number}?") from None
        changes.append(Alteration(name, operation, value))
    return changes


async def _alter_one(
    context: "OperationContext", resource: ResourceEdits, change: Change, validate_only: bool
) -> None:
    settings = context.controller.settings
    kind, name, _ = resource
    if kind == ConfigResource.TOPIC:
        check_not_reserved(name, lambda reserved: reserved.configs)
        await settings.alter_topic(name, change, validate_only=validate_only)
    elif kind == ConfigResource.BROKER:
        await settings.alter_broker(name, change, validate_only=validate_only)
    elif kind == ConfigResource.GROUP:
        await settings.groups.alter(name, change, validate_only=validate_only)
    elif kind == ConfigResource.CLIENT_METRICS:
        await settings.client_metrics.alter(name, change, validate_only=validate_only)
    elif kind == ConfigResource.BROKER_LOGGER:
        _check_broker_name(context, name)
        _alter_loggers(change, validate_only)
    else:
        raise _no_settings(kind)


def _check_broker_name(context: "OperationContext", name: str) -> None:
    """Refuse loggers of no broker or of another one; ApiError INVALID_REQUEST."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(context.broker.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.broker.broker_id} but received {name[:20]}",
        )


def _alter_loggers(change: Change, validate_only: bool) -> None:
    """Set the levels of loggers, or have them follow their parents again (KIP-412)."""
    if isinstance(change, Mapping):
        raise ApiError(ErrorCode.INVALID_REQUEST, "loggers are altered one by one")
    for alteration in change:
        _check_logger(alteration)
    if validate_only:
        return
    for name, operation, value in change:
        logs.set_level(name, value if operation is AlterOperation.SET else None)


def _check_logger(alteration: Alteration) -> None:
    name, operation, value = alteration
    if name not in logs.levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is AlterOperation.SET:
        if value not in logs.LOGGER_LEVELS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {value} as it is not a supported log"
                f" level. Valid log levels are {', '.join(logs.LOGGER_LEVELS)}",
            )
    elif operation is not AlterOperation.DELETE:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{operation.name} operation is not allowed for loggers"
        )
    elif name == logs.ROOT_LOGGER:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Removing the log level of the {name} logger is not allowed",
        )


def _audit(
    context: "OperationContext",
    resources: Sequence[ResourceEdits],
    outcomes: Sequence[ApiError | None],
) -> None:
    asked = {(resource.kind, resource.name): resource.edits for resource in resources}
    for (kind, name, _), error in zip(resources, outcomes, strict=True):
        shown = ",".join(_shown(kind, edit) for edit in asked[kind, name])
        word = ConfigResource(kind).name if kind in _ALTER else kind
        context.changed(error, {"resource": f"{word}:{name}", "configs": shortened(shown)})


def _shown(kind: int, edit: ConfigEdit) -> str:
    name, value, operation = edit
    if operation == AlterOperation.DELETE:
        return f"{name} DELETE"
    value = shown_value(kind, name, value)
    if operation == AlterOperation.SET:
        return f"{name}={value}"
    verb = _VERBS[operation] if 0 <= operation < len(_VERBS) else "UNKNOWN"
    return f"{name} {verb} {value}"


def shown_value(kind: int, name: str, value: str | None) -> str | None:
    """Return a setting's value for the audit log, hidden unless it is known to be no secret."""
    if kind == ConfigResource.BROKER_LOGGER:
        return value
    definition = _DEFINITIONS.get(kind, {}).get(name)
    if kind == ConfigResource.BROKER:
        definition = broker_definition(name)
    return HIDDEN if definition is None or definition.sensitive else value

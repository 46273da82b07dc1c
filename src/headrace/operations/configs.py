"""IncrementalAlterConfigs, AlterConfigs and DescribeConfigs for each type of resource.

Types: topics, brokers, broker loggers, groups and client metrics subscriptions.
"""

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
    """The types of resources that have settings, with the numbers of Kafka's protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigEdit(NamedTuple):
    """A setting to set, delete, append to or subtract from."""

    name: str
    value: str | None
    """The value to set, append or subtract; None with DELETE."""
    operation: int = AlterOperation.SET
    """An `AlterOperation`, as the client sent it; any other number is refused."""


class ResourceEdits(NamedTuple):
    """A resource and the edits of its settings."""

    kind: int
    """A `ConfigResource`, as the client sent it; any other number is refused."""
    name: str
    """Topic, group or subscription name, or broker id; "" is every broker's default."""
    edits: Sequence[ConfigEdit]


_ALTER: Mapping[int, AdminOperation] = {
    ConfigResource.TOPIC: AdminOperation.ALTER_TOPIC_CONFIGS,
    ConfigResource.GROUP: AdminOperation.ALTER_GROUP_CONFIGS,
    ConfigResource.BROKER: AdminOperation.ALTER_CLUSTER_CONFIGS,
    ConfigResource.BROKER_LOGGER: AdminOperation.ALTER_CLUSTER_CONFIGS,
    ConfigResource.CLIENT_METRICS: AdminOperation.ALTER_CLUSTER_CONFIGS,
}
"""By type of resource: the operation whose permission AlterConfigs requires."""
_DESCRIBE: Mapping[int, AdminOperation] = {
    ConfigResource.TOPIC: AdminOperation.DESCRIBE_TOPIC_CONFIGS,
    ConfigResource.GROUP: AdminOperation.DESCRIBE_GROUP_CONFIGS,
    ConfigResource.BROKER: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
    ConfigResource.BROKER_LOGGER: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
    ConfigResource.CLIENT_METRICS: AdminOperation.DESCRIBE_CLUSTER_CONFIGS,
}
"""By type of resource: the operation whose permission DescribeConfigs requires."""
_OF_CLUSTER = frozenset(
    {AdminOperation.ALTER_CLUSTER_CONFIGS, AdminOperation.DESCRIBE_CLUSTER_CONFIGS}
)
"""Operations that are authorized on the cluster; the others on the resource itself."""
_DEFINITIONS: Mapping[int, Mapping[str, Definition]] = {
    ConfigResource.TOPIC: TOPIC,
    ConfigResource.CLIENT_METRICS: CLIENT_METRICS,
    ConfigResource.GROUP: GROUP,
}
_VERBS = ("SET", "DELETE", "APPEND", "SUBTRACT")
"""Names of `AlterOperation` numbers in audit lines."""


async def alter_configs(
    context: "OperationContext",
    resources: Sequence[ResourceEdits],
    *,
    whole: bool = False,
    validate_only: bool = False,
) -> list[ApiError | None]:
    """Alter the settings of each resource; return one error per resource, None if it was altered.

    An error of one resource does not affect the others; a resource that is listed twice is refused.
    `whole`: the edits are the complete settings, and all others are removed (AlterConfigs).
    `validate_only`: check and change nothing, and write no audit line.
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
    """Return all settings of a resource; a broker's name is its id, or "" for the defaults of all.

    Raises ApiError: not authorized, an invalid name, or a type that has no settings.
    """
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
    """Return a logger's level as a DescribeConfigs entry."""
    definition = Definition(name, Kind.UNKNOWN, None, "")
    return ConfigEntry(definition, level, ConfigSource.BROKER_LOGGER, False, ())


def _check_allowed(context: "OperationContext", asks: AdminOperation | None, name: str) -> None:
    """Raise ApiError if the caller lacks the permission; nothing is checked without an operation.

    `asks` is None for a type that has no settings, which the next step refuses.
    """
    if asks is not None:
        context.require(asks, CLUSTER_NAME if asks in _OF_CLUSTER else name)


def _no_settings(kind: int) -> ApiError:
    """Return the error for altering or describing a resource type that has no settings."""
    try:
        described = ConfigResource(kind).name.lower().replace("_", " ")
    except ValueError:
        described = str(kind)
    return ApiError(ErrorCode.INVALID_REQUEST, f"resources of type {described} have no settings")


def _all_of(resource: ResourceEdits) -> dict[str, str | None]:
    """Return the values of a complete replacement by name. ApiError: a name appears twice."""
    settings: dict[str, str | None] = {}
    for edit in resource.edits:
        if edit.name in settings:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{edit.name} appears more than once in the request"
            )
        settings[edit.name] = edit.value
    return settings


def _single(resource: ResourceEdits) -> list[Alteration]:
    """Return the edits as alterations. ApiError: the number of an unknown operation."""
    changes = []
    for name, value, number in resource.edits:
        try:
            operation = AlterOperation(number)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name}: unknown operation {number}; must be 0 (SET), 1 (DELETE), 2 (APPEND) or 3"
                " (SUBTRACT)",
            ) from None
        changes.append(Alteration(name, operation, value))
    return changes


async def _alter_one(
    context: "OperationContext", resource: ResourceEdits, change: Change, validate_only: bool
) -> None:
    """Alter one resource's settings. Raises ApiError."""
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
    """Raise ApiError INVALID_REQUEST unless `name` is this broker's id: loggers are per broker."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(context.broker.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.broker.broker_id} but received {name[:20]}",
        )


def _alter_loggers(change: Change, validate_only: bool) -> None:
    """Set the levels of loggers, or delete them so that the parent's level applies (KIP-412)."""
    if isinstance(change, Mapping):
        raise ApiError(ErrorCode.INVALID_REQUEST, "loggers are altered one by one")
    for alteration in change:
        _check_logger(alteration)
    if validate_only:
        return
    for name, operation, value in change:
        logs.set_level(name, value if operation is AlterOperation.SET else None)


def _check_logger(alteration: Alteration) -> None:
    """Raise ApiError for an unknown logger or level, or an operation that loggers do not have."""
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
    """Write one audit line per resource, with its edits and its result."""
    asked = {(resource.kind, resource.name): resource.edits for resource in resources}
    for (kind, name, _), error in zip(resources, outcomes, strict=True):
        shown = ",".join(_shown(kind, edit) for edit in asked[kind, name])
        word = ConfigResource(kind).name if kind in _ALTER else kind
        context.changed(error, {"resource": f"{word}:{name}", "configs": shortened(shown)})


def _shown(kind: int, edit: ConfigEdit) -> str:
    """Return one edit as an audit line shows it."""
    name, value, operation = edit
    if operation == AlterOperation.DELETE:
        return f"{name} DELETE"
    value = shown_value(kind, name, value)
    if operation == AlterOperation.SET:
        return f"{name}={value}"
    verb = _VERBS[operation] if 0 <= operation < len(_VERBS) else "UNKNOWN"
    return f"{name} {verb} {value}"


def shown_value(kind: int, name: str, value: str | None) -> str | None:
    """Return a setting's value for the audit log, hidden if it is sensitive or unknown."""
    if kind == ConfigResource.BROKER_LOGGER:
        return value
    definition = _DEFINITIONS.get(kind, {}).get(name)
    if kind == ConfigResource.BROKER:
        definition = broker_definition(name)
    return HIDDEN if definition is None or definition.sensitive else value

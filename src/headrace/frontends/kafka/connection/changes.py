"""Audit lines of Kafka's APIs: one table of the changes that each request makes.

A line has the principal, address, listener, API, object and result. It is made from the request and
its answer when the handler is done, whether or not the client is still connected. Refusals for a
missing permission have lines of their own (`authorisation`). Values of settings are included if the
settings are known and not secret; credentials never are.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION, permits
from headrace.model.errors import ErrorCode
from headrace.operations.audit import shortened, tell_change
from headrace.operations.permissions import Caller, Surface
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.frontends.kafka.connection.handler import RequestContext

Entity = Any
Detail = dict[str, object]


class Change(NamedTuple):
    """A change that a request asked for, with its result."""

    result: int
    """The error code; 0: the change was made."""
    detail: Detail


Tell = Callable[[Entity, Entity], Iterable[Change]]
"""Returns the changes of a request and its answer."""


def tell(context: "RequestContext", request: Entity, answer: Entity) -> None:
    """Write audit lines for the changes of a request, unless it only validated."""
    if context.api_key == ApiKey.WRITE_TXN_MARKERS and _between_brokers(context):
        return  # part of a client's own transaction
    if getattr(request, "validate_only", False):
        return
    for change in CHANGES[context.api_key](request, answer):
        tell_one(context, change)


def _between_brokers(context: "RequestContext") -> bool:
    listeners = context.shared.broker_listeners or ()
    if context.identity.listener not in listeners:
        return False
    return permits(context, CLUSTER_ACTION, told=False)


def tell_one(context: "RequestContext", change: Change) -> None:
    """Write an audit line for a change, unless it was refused for a missing permission."""
    caller = Caller(context.identity, Surface.KAFKA, context.api_key.name)
    tell_change(context.broker.audit, caller, change.result, change.detail)


def tell_failed(context: "RequestContext", code: ErrorCode | None) -> None:
    """Write an audit line for a request that failed with `code`.

    None: the broker stopped before the request was done, so its result is unknown.
    """
    if code is None:
        context.broker.audit.changed(
            context.identity, by=context.api_key.name, result="UNKNOWN", done=False
        )
    else:
        tell_one(context, Change(code, {}))


# --- changes of each API ----------------------------------------------------------------------


def _told_by_operation(request: Entity, answer: Entity) -> Iterator[Change]:
    """Return no changes: the operation that the handler calls writes the audit lines."""
    yield from ()


def _altered_share_offsets(request: Entity, answer: Entity) -> Iterator[Change]:
    if answer.error_code:
        yield Change(answer.error_code, {"group": request.group_id})
        return
    yield from _of_partitions(answer.responses, group=request.group_id)


def _deleted_share_offsets(request: Entity, answer: Entity) -> Iterator[Change]:
    if answer.error_code:
        yield Change(answer.error_code, {"group": request.group_id})
        return
    for topic in answer.responses:
        yield Change(topic.error_code, {"group": request.group_id, "topic": topic.topic_name})


def _ended_transactions(request: Entity, answer: Entity) -> Iterator[Change]:
    ends = {marker.producer_id: marker.transaction_result for marker in request.markers}
    for marker in answer.markers:
        end = "COMMIT" if ends.get(marker.producer_id) else "ABORT"
        yield from _of_partitions(marker.topics, producer=marker.producer_id, end=end)


def _of_partitions(topics: Iterable[Entity], **detail: object) -> Iterator[Change]:
    """Return a change for each topic and result, with its partitions."""
    for topic in topics:
        name = getattr(topic, "name", None) or getattr(topic, "topic_name", None)
        for code, partitions in _by_result(topic.partitions).items():
            numbers = ",".join(str(partition.partition_index) for partition in partitions)
            yield Change(code, {**detail, "topic": name, "partitions": shortened(numbers)})


def _by_result(partitions: Iterable[Entity]) -> dict[int, list[Entity]]:
    found: dict[int, list[Entity]] = {}
    for partition in partitions:
        found.setdefault(int(partition.error_code), []).append(partition)
    return found


CHANGES: dict[ApiKey, Tell] = {
    ApiKey.CREATE_TOPICS: _told_by_operation,
    ApiKey.DELETE_TOPICS: _told_by_operation,
    ApiKey.CREATE_PARTITIONS: _told_by_operation,
    ApiKey.DELETE_RECORDS: _told_by_operation,
    ApiKey.ALTER_CONFIGS: _told_by_operation,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _told_by_operation,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _told_by_operation,
    ApiKey.CREATE_ACLS: _told_by_operation,
    ApiKey.DELETE_ACLS: _told_by_operation,
    ApiKey.DELETE_GROUPS: _told_by_operation,
    ApiKey.OFFSET_DELETE: _told_by_operation,
    ApiKey.ELECT_LEADERS: _told_by_operation,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _told_by_operation,
    ApiKey.ALTER_CLIENT_QUOTAS: _told_by_operation,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _told_by_operation,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _altered_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _deleted_share_offsets,
    ApiKey.WRITE_TXN_MARKERS: _ended_transactions,
}
"""The APIs that administrators change objects by.

Metadata also creates topics, and writes its own lines: its answer is encoded without entities.
"""

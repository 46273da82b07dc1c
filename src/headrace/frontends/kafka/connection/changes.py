"""What each API changes, in one table: the audit log has a line for each thing that was changed.

A line says who, from where, through which listener, by which API, what, and with which result. It
is made of the request and of its answer, when the handler is done, whether or not its client is
still there. What was refused for lack of permission has a line already (`authorisation`). Values
are shown of settings that are known and no secrets; credentials never.
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
    """One thing that was to be changed, and what became of it."""

    result: int
    """The error code; 0: it was changed."""
    detail: Detail


Tell = Callable[[Entity, Entity], Iterable[Change]]
"""Returns the changes of a request and its answer."""


def tell(context: "RequestContext", request: Entity, answer: Entity) -> None:
    """Have the audit log tell what a request has changed."""
    if context.api_key == ApiKey.WRITE_TXN_MARKERS and _between_brokers(context):
        return  # the end of a client's own transaction, on its way
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
    """Have the audit log tell one change, unless it was refused for lack of permission."""
    caller = Caller(context.identity, Surface.KAFKA, context.api_key.name)
    tell_change(context.broker.audit, caller, change.result, change.detail)


def tell_failed(context: "RequestContext", code: ErrorCode | None) -> None:
    """Have it tell that a whole request failed; None: the broker stopped before it was done."""
    if code is None:
        context.broker.audit.changed(
            context.identity, by=context.api_key.name, result="UNKNOWN", done=False
        )
    else:
        tell_one(context, Change(code, {}))


# --- what each of them changes -------------------------------------------------------------------


def _told_by_operation(request: Entity, answer: Entity) -> Iterator[Change]:
    """Return nothing: the operation that the handler calls has told it (`operations`)."""
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
"""The APIs that administrators change something by. Metadata makes topics too, and tells it itself:
it is answered without the entities that these are told from."""

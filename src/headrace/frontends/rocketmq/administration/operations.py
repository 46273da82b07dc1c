"""The operations that `headrace rocketmq` calls, as `operations.registry` registers them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from headrace.frontends.rocketmq.administration.group_beginnings import (
    WhereGroupsBegin,
    where_groups_begin,
)
from headrace.frontends.rocketmq.administration.moves import (
    ExportFiles,
    ImportOffsets,
    PlanImport,
    export_files,
    import_offsets,
    plan_import,
)
from headrace.frontends.rocketmq.administration.settings_imports import (
    ImportGroups,
    ImportTopics,
    PlanGroups,
    PlanTopics,
    import_groups,
    import_topics,
    plan_groups,
    plan_topics,
)
from headrace.frontends.rocketmq.held.held_imports import ImportHeld, import_held
from headrace.operations.arguments import Arguments

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.operations.registry import Do


_OPERATIONS: dict[type[Arguments[Any]], Callable[[Any, Any], Awaitable[object]]] = {
    WhereGroupsBegin: where_groups_begin,
    ExportFiles: export_files,
    PlanImport: plan_import,
    ImportOffsets: import_offsets,
    PlanTopics: plan_topics,
    ImportTopics: import_topics,
    PlanGroups: plan_groups,
    ImportGroups: import_groups,
    ImportHeld: import_held,
}


def operations_of(broker: "ServedBroker") -> "dict[type[Arguments[Any]], Do]":
    """Return the operations by the type of their arguments."""

    def do(operation: Callable[[Any, Any], Awaitable[object]]) -> "Do":
        return lambda caller, asked: operation(broker, asked)

    return {kind: do(operation) for kind, operation in _OPERATIONS.items()}

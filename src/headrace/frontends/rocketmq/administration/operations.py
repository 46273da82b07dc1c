"""The operations that `headrace rocketmq` calls, as `operations.registry` registers them."""

from functools import partial
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

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.operations.arguments import Arguments
    from headrace.operations.registry import Do


def operations_of(broker: "ServedBroker") -> "dict[type[Arguments[Any]], Do]":
    """Return the operations by the type of their arguments."""
    return {
        WhereGroupsBegin: partial(where_groups_begin, broker),
        ExportFiles: partial(export_files, broker),
        PlanImport: partial(plan_import, broker),
        ImportOffsets: partial(import_offsets, broker),
        PlanTopics: partial(plan_topics, broker),
        ImportTopics: partial(import_topics, broker),
        PlanGroups: partial(plan_groups, broker),
        ImportGroups: partial(import_groups, broker),
        ImportHeld: partial(import_held, broker),
    }

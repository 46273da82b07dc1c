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
    }

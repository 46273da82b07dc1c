"""AlterClientQuotas: quotas of users, client ids and IP addresses (KIP-546)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.operations.audit import shortened
from headrace.operations.permissions import PERMISSIONS, AdminOperation, authorization_failed

if TYPE_CHECKING:
    from headrace.cluster.settings.quota_settings import Alteration, QuotaChange
    from headrace.model.errors import ApiError
    from headrace.operations.context import OperationContext


async def alter_quotas(
    context: "OperationContext", alterations: Sequence["Alteration"], *, validate_only: bool = False
) -> "Sequence[ApiError | None]":
    """Alter each entity's quotas; return one error per entity, None if its quotas were altered.

    An error of one entity does not affect the others. `validate_only`: check and change nothing.
    """
    outcomes: Sequence[ApiError | None]
    if context.permits(AdminOperation.ALTER_QUOTAS):
        outcomes = await context.controller.settings.quotas.alter(
            alterations, validate_only=validate_only
        )
    else:
        kind = PERMISSIONS[AdminOperation.ALTER_QUOTAS].kind
        outcomes = [authorization_failed(kind)] * len(alterations)
    if not validate_only:
        for alteration, error in zip(alterations, outcomes, strict=True):
            entity = ",".join(
                f"{kind}:{'<default>' if name is None else name}"
                for kind, name in alteration.entity
            )
            quotas = ",".join(map(_shown, alteration.changes))
            context.changed(error, {"entity": entity, "quotas": shortened(quotas)})
    return outcomes


def _shown(change: "QuotaChange") -> str:
    """Return a quota's change as an audit line shows it."""
    return f"{change.key} DELETE" if change.value is None else f"{change.key}={change.value:g}"

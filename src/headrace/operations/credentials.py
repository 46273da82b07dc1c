"""AlterUserScramCredentials: SCRAM credentials of users, set and deleted (KIP-554)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError
from headrace.operations.permissions import PERMISSIONS, AdminOperation, authorization_failed

if TYPE_CHECKING:
    from headrace.cluster.settings.user_settings import Deletion, Upsertion
    from headrace.operations.context import OperationContext

_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def alter_credentials(
    context: "OperationContext",
    deletions: Sequence["Deletion"],
    upsertions: Sequence["Upsertion"],
) -> Mapping[str, ApiError | None]:
    """Delete and set SCRAM credentials; return one error per user, None if all of it was done.

    An error of one user does not affect the others.
    """
    outcome: Mapping[str, ApiError | None]
    if context.permits(AdminOperation.ALTER_CREDENTIALS):
        outcome = await context.controller.settings.users.alter(deletions, upsertions)
    else:
        users = [*(each.user for each in deletions), *(each.user for each in upsertions)]
        kind = PERMISSIONS[AdminOperation.ALTER_CREDENTIALS].kind
        outcome = dict.fromkeys(users, authorization_failed(kind))
    asked: dict[str, list[str]] = {}
    for deletion in deletions:
        asked.setdefault(deletion.user, []).append(f"{_mechanism(deletion)} DELETE")
    for made in upsertions:
        said = f"{_mechanism(made)} iterations={made.iterations}"
        asked.setdefault(made.user, []).append(said)
    for user, error in outcome.items():
        context.changed(error, {"user": user, "credentials": ",".join(asked.get(user, ()))})
    return outcome


def _mechanism(credential: "Deletion | Upsertion") -> str:
    """Return a credential's SCRAM mechanism for the audit line."""
    return _MECHANISMS.get(credential.mechanism, "UNKNOWN")

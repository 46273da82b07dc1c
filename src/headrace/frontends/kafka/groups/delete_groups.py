"""DeleteGroups (key 42, v0-v2): delete empty groups and their offsets.

* Answered when the deletions are committed. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, each for itself.
v2 flexible
"""

from functools import partial

from headrace.frontends.kafka.authentication.authorisation import DELETE_GROUP, refused
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.ports.callbacks import gather
from headrace.wire.kafka import kio_codec


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer when the last of the groups has its answer."""
    pending = Pending()
    names: tuple[str, ...] = tuple(dict.fromkeys(request.groups_names))
    deleted = gather(len(names), partial(_answer, context, pending, names))
    forbidden = refused(context, DELETE_GROUP, names)
    for group_id in names:
        if group_id in forbidden:
            deleted(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            continue
        coordinators = context.coordinators
        shared = coordinators.share.is_share_group(group_id)
        delete = coordinators.share.delete_group if shared else coordinators.groups.delete
        delete(group_id, partial(deleted, group_id))
    return pending


def _answer(
    context: RequestContext,
    pending: Pending,
    names: tuple[str, ...],
    codes: dict[str, ErrorCode],
) -> None:
    if pending.done:
        return
    make = maker(context)
    results = tuple(
        make("DeletableGroupResult", group_id=name, error_code=codes[name]) for name in names
    )
    response = make(None, results=results)
    pending.resolve(kio_codec.encode_body(response))

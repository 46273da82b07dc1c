"""DeleteGroups (key 42, v0-v2): delete empty groups and their offsets.

- Answered when the deletions are committed. Errors for each group: NON_EMPTY_GROUP,
  GROUP_ID_NOT_FOUND.

Versions: v2 flexible
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.operations.groups import delete_groups


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete groups; answer DeleteGroups with an error code for each."""
    make = maker(context)
    codes = await delete_groups(operating(context), request.groups_names)
    results = tuple(
        make("DeletableGroupResult", group_id=name, error_code=code) for name, code in codes.items()
    )
    return make(None, results=results)

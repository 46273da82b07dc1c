"""The virtual hosts whose objects the user of a request sees (ADR 82).

Users see those that they may open, administrators all. Rights are looked up with each call, so a
permission that is removed while a list is sent counts for the rest of its rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.management.requests.errors import ManagementError, no_such, not_found
from headrace.operations.tags import Tag, suffices
from headrace.queues.permissions.permission_rules import vhost_resource
from headrace.security.authorizer import Operation

if TYPE_CHECKING:
    from headrace.management.requests.request import ManagementRequest


def sees(request: "ManagementRequest") -> Callable[[str], bool]:
    """Return a function that tells whether the user sees a virtual host of this name now."""
    services, caller = request.services, request.caller
    authorizer, vhosts = services.broker.authorizer, services.accounts.definitions.vhosts

    def is_seen(vhost: str) -> bool:
        if vhost not in vhosts:
            return False
        tags = caller.tags()
        return suffices(tags, Tag.ADMINISTRATOR) or (
            suffices(tags, Tag.MANAGEMENT)
            and authorizer.allows(caller.identity, Operation.DESCRIBE, vhost_resource(vhost))
        )

    return is_seen


def visible_vhosts(request: "ManagementRequest") -> list[str]:
    """Return the names of the virtual hosts that the user sees, in order."""
    return sorted(filter(sees(request), request.services.accounts.definitions.vhosts))


def require_vhost(request: "ManagementRequest") -> str:
    """Return the virtual host of the path; raise ManagementError 404 if the user sees none.

    The answer does not tell whether there is one that the user may not open.
    """
    vhost = request.values["vhost"]
    if sees(request)(vhost):
        return vhost
    raise _unseen(request)


def _unseen(request: "ManagementRequest") -> ManagementError:
    if not suffices(request.caller.tags(), Tag.ADMINISTRATOR):
        return no_such("Not Found")
    return no_such("vhost_not_found") if request.method in {"PUT", "POST"} else not_found()

"""From an HTTP request to its row of the table, and from the handler's reply to HTTP.

Checked in this order, the first refusal is the answer:

    path            404            before the head is answered, so a stranger's body is dropped
    method          405            with the methods of the path
    site            403            a change that a page of another site sends
    credentials     401, 400
    tag             401            with an audit line; again after the body, which takes time
    DENY            401            a rule of the authorizer, with an audit line
    Accept          406
    body            413, 408, 400  received now, if the row has one
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.http.router import (
    BodyRefused,
    Found,
    HttpReply,
    HttpRequest,
    HttpRoute,
)
from headrace.frontends.management import replies
from headrace.frontends.management.conditions import accepts_json, is_from_another_site
from headrace.frontends.management.credentials import BasicLogins, NoCredentials
from headrace.management.objects.overview import node_name
from headrace.management.requests.errors import (
    ManagementError,
    bad_request,
    not_authorised,
    not_found,
    of_api_error,
    of_refused,
)
from headrace.management.requests.pages import INDEX, front_page, index_page
from headrace.management.requests.request import ManagementRequest, RequestUser
from headrace.management.requests.rows import ROWS
from headrace.management.requests.table import FoundRow, NotAllowed, RequestTable, Row, handler_of
from headrace.management.requests.tags import require_tag
from headrace.model.errors import ApiError
from headrace.operations.permissions import Caller, Surface
from headrace.operations.tags import Tag
from headrace.queues.refusals import Refused
from headrace.security.authorizer import (
    CLUSTER_NAME,
    Operation,
    Resource,
    ResourceType,
    is_denied,
)
from headrace.security.identity import USER, Principal
from headrace.wire.http_targets import query_fields

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.model.secret import Secret
    from headrace.operations.registry import Operations
    from headrace.vhosts.users.accounts import Accounts

API = "/api"
_DROPPED_BYTES_MAX = 1 << 20
"""Longest body in bytes of a request whose row has none: dropped, as clients send `{}`."""
_CHALLENGE = ("WWW-Authenticate", 'Basic realm="RabbitMQ Management"')
_PAGE_METHODS = "HEAD, GET, OPTIONS"
_CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class ManagementRouter:
    """The requests of one broker's management listeners.

    Implements `http.router.Router` and `management.requests.request.Services`.
    """

    def __init__(self, broker: "Broker", accounts: "Accounts", operations: "Operations") -> None:
        self._broker = broker
        self._accounts = accounts
        self._operations = operations
        self._logins = BasicLogins(accounts, broker.clock)
        self._table = RequestTable(ROWS)

    @property
    def broker(self) -> "Broker":
        """The broker that answers."""
        return self._broker

    @property
    def operations(self) -> "Operations":
        """The operations on objects. Implements `Services`."""
        return self._operations

    @property
    def accounts(self) -> "Accounts":
        """The broker's users and virtual hosts. Implements `Services`."""
        return self._accounts

    async def login(self, caller: Caller, user: str, password: "Secret") -> RequestUser:
        """Return the user whose password this is. Raises ManagementError."""
        return await self._logins.login(caller.identity, user, password)

    def find(self, method: str, path: str) -> Found | HttpReply:
        """Return the route of a request, or a reply instead: 404, 405, the methods, a page."""
        page = self._page(path)
        if page is not None:
            return page if method in {"GET", "HEAD"} else _only(method, _PAGE_METHODS)
        found = None
        try:
            if path.startswith(f"{API}/"):
                found = self._table.find(method, path.removeprefix(API))
        except ValueError:
            return replies.refusal(bad_request("the path is not percent-encoded UTF-8"))
        if found is None:
            return replies.refusal(not_found(), _PAGE_METHODS)
        if isinstance(found, NotAllowed):
            return _only(method, found.allow)
        row = found.row
        body_bytes_max = row.body_bytes_max or _DROPPED_BYTES_MAX
        handler = partial(self._answer, found)
        return Found(HttpRoute(method, row.pattern, handler, body_bytes_max), found.values)

    def _page(self, path: str) -> HttpReply | None:
        """Return the page for people at a path, or None."""
        if path == "/":
            return replies.html(front_page(node_name(self._broker)))
        if path in {API, f"{API}/"}:
            return replies.empty(301, "", ("Location", INDEX))
        return replies.html(index_page(ROWS)) if path == INDEX else None

    async def _answer(self, found: FoundRow, request: HttpRequest) -> HttpReply:
        """Return the reply to a request whose path and method have a row."""
        try:
            return await self._checked(found, request)
        except NoCredentials as missing:
            challenge = [_CHALLENGE] if missing.status == 401 else []
            return replies.empty(missing.status, found.allow, *challenge)
        except ManagementError as error:
            refused = error
        except BodyRefused as error:
            refused = replies.body_refusal(error.status, error.reason)
        except Refused as error:
            refused = of_refused(error)
        except ApiError as error:
            refused = of_api_error(error)
        return replies.refusal(refused, found.allow)

    async def _checked(self, found: FoundRow, request: HttpRequest) -> HttpReply:
        row = found.row
        if is_from_another_site(request):
            raise ManagementError(403, "forbidden", "a change that a page of another site sends")
        user = RequestUser() if row.tag is Tag.ANYONE else await self._logins.user_of(request)
        identity = request.identity
        if user.name:
            identity = identity._replace(principal=Principal(USER, user.name))
        tags = partial(self._accounts.tags_of, user.name)
        caller = Caller(identity, Surface.MANAGEMENT, f"{row.method} {row.pattern}", tags)
        self._require(row, caller)
        if not accepts_json(request):
            return replies.empty(406, found.allow)
        try:
            query = query_fields(request.query)
        except ValueError:
            raise bad_request("the query is not percent-encoded UTF-8, or too long") from None
        body = await request.body.read() if row.body_bytes_max else b""
        self._require(row, caller)
        asked = ManagementRequest(
            row.method, found.values, query, body, caller, user, services=self
        )
        return replies.to_http(await handler_of(row)(asked), found.allow)

    def _require(self, row: Row, caller: Caller) -> None:
        """Raise ManagementError, with an audit line, if the caller may not send the request now."""
        if row.tag is Tag.ANYONE:
            return
        operation = Operation.DESCRIBE if row.method == "GET" else Operation.ALTER
        try:
            require_tag(row.tag, caller.tags())
            if is_denied(self._broker.authorizer, caller.identity, operation, _CLUSTER):
                raise not_authorised()
        except ManagementError:
            self._broker.audit.refused(caller.identity, operation, _CLUSTER)
            raise


def _only(method: str, allow: str) -> HttpReply:
    """Return the methods of a path: to OPTIONS as the answer, else as a refusal."""
    return replies.empty(200 if method == "OPTIONS" else 405, allow)

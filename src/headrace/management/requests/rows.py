"""The rows of the management API: all requests that are answered."""

from headrace.management.requests.table import Row
from headrace.operations.tags import Tag

_OBJECTS = "headrace.management.objects"
_FORM_BYTES_MAX = 64 << 10

_OBJECT_BYTES_MAX = 256 << 10
_QUEUES, _EXCHANGES = f"{_OBJECTS}.queues", f"{_OBJECTS}.exchanges"
_BINDINGS = f"{_OBJECTS}.bindings"


def _of_users(method: str, pattern: str, handler: str) -> Row:
    """Return a row for users of the virtual host, whose permissions the operation checks."""
    has_body = method in {"PUT", "POST"}
    return Row(method, pattern, Tag.MANAGEMENT, handler, _OBJECT_BYTES_MAX if has_body else 0)


_QUEUE, _EXCHANGE = "/queues/{vhost}/{name}", "/exchanges/{vhost}/{name}"
_TO_QUEUE, _TO_EXCHANGE = (f"/bindings/{{vhost}}/e/{{source}}/{kind}/{{name}}" for kind in "qe")
_OF_VHOSTS = (
    _of_users("GET", "/queues", f"{_QUEUES}:queues"),
    _of_users("GET", "/queues/detailed", f"{_QUEUES}:queues"),
    _of_users("GET", "/queues/{vhost}", f"{_QUEUES}:queues_of_vhost"),
    _of_users("GET", _QUEUE, f"{_QUEUES}:queue"),
    _of_users("PUT", _QUEUE, f"{_QUEUES}:declare"),
    _of_users("DELETE", _QUEUE, f"{_QUEUES}:delete"),
    _of_users("POST", f"{_QUEUE}/actions", f"{_QUEUES}:act"),
    _of_users("GET", f"{_QUEUE}/bindings", f"{_BINDINGS}:of_queue"),
    _of_users("GET", "/exchanges", f"{_EXCHANGES}:exchanges"),
    _of_users("GET", "/exchanges/{vhost}", f"{_EXCHANGES}:exchanges_of_vhost"),
    _of_users("GET", _EXCHANGE, f"{_EXCHANGES}:exchange"),
    _of_users("PUT", _EXCHANGE, f"{_EXCHANGES}:declare"),
    _of_users("DELETE", _EXCHANGE, f"{_EXCHANGES}:delete"),
    _of_users("GET", f"{_EXCHANGE}/bindings/source", f"{_BINDINGS}:from_exchange"),
    _of_users("GET", f"{_EXCHANGE}/bindings/destination", f"{_BINDINGS}:to_exchange"),
    _of_users("GET", "/bindings", f"{_BINDINGS}:bindings"),
    _of_users("GET", "/bindings/{vhost}", f"{_BINDINGS}:bindings_of_vhost"),
    _of_users("GET", _TO_QUEUE, f"{_BINDINGS}:between_exchange_and_queue"),
    _of_users("POST", _TO_QUEUE, f"{_BINDINGS}:create_to_queue"),
    _of_users("GET", f"{_TO_QUEUE}/{{properties}}", f"{_BINDINGS}:one_to_queue"),
    _of_users("DELETE", f"{_TO_QUEUE}/{{properties}}", f"{_BINDINGS}:delete_to_queue"),
    _of_users("GET", _TO_EXCHANGE, f"{_BINDINGS}:between_exchanges"),
    _of_users("POST", _TO_EXCHANGE, f"{_BINDINGS}:create_to_exchange"),
    _of_users("GET", f"{_TO_EXCHANGE}/{{properties}}", f"{_BINDINGS}:one_to_exchange"),
    _of_users("DELETE", f"{_TO_EXCHANGE}/{{properties}}", f"{_BINDINGS}:delete_to_exchange"),
)
ROWS = (
    *_OF_VHOSTS,
    Row("GET", "/overview", Tag.MANAGEMENT, f"{_OBJECTS}.overview:overview"),
    Row("GET", "/version", Tag.ANYONE, f"{_OBJECTS}.overview:version"),
    Row("GET", "/extensions", Tag.MANAGEMENT, f"{_OBJECTS}.overview:extensions"),
    Row("GET", "/whoami", Tag.MANAGEMENT, f"{_OBJECTS}.whoami:whoami"),
    Row("POST", "/login", Tag.ANYONE, f"{_OBJECTS}.whoami:login", _FORM_BYTES_MAX),
    Row("DELETE", "/login", Tag.ANYONE, f"{_OBJECTS}.whoami:logout"),
    Row(
        "GET",
        "/auth/hash_password/{password}",
        Tag.ADMINISTRATOR,
        f"{_OBJECTS}.whoami:hash_password",
    ),
)

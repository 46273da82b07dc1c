"""The rows of the management API: all requests that are answered."""

from headrace.management.requests.table import Row
from headrace.operations.tags import Tag

_OBJECTS = "headrace.management.objects"
_FORM_BYTES_MAX = 64 << 10

_OBJECT_BYTES_MAX = 256 << 10
_QUEUES, _EXCHANGES = f"{_OBJECTS}.queues", f"{_OBJECTS}.exchanges"
_BINDINGS, _LIMITS = f"{_OBJECTS}.bindings", f"{_OBJECTS}.limits"
_VHOSTS, _USERS = f"{_OBJECTS}.vhosts", f"{_OBJECTS}.users"
_PERMISSIONS, _PARAMETERS = f"{_OBJECTS}.permissions", f"{_OBJECTS}.global_parameters"
_POLICIES = f"{_OBJECTS}.policies"


def _of_users(method: str, pattern: str, handler: str) -> Row:
    """Return a row for users of the virtual host, whose permissions the operation checks."""
    has_body = method in {"PUT", "POST"}
    return Row(method, pattern, Tag.MANAGEMENT, handler, _OBJECT_BYTES_MAX if has_body else 0)


def _of_administrators(method: str, pattern: str, handler: str) -> Row:
    """Return a row for administrators."""
    has_body = method in {"PUT", "POST"}
    return Row(method, pattern, Tag.ADMINISTRATOR, handler, _OBJECT_BYTES_MAX if has_body else 0)


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
_PERMISSION = "/permissions/{vhost}/{user}"
_TOPIC_PERMISSION = "/topic-permissions/{vhost}/{user}"
_ON_EXCHANGE = f"{_TOPIC_PERMISSION}/{{exchange}}"
_POLICY, _OPERATOR_POLICY = "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}"
_VHOST, _USER, _PARAMETER = "/vhosts/{vhost}", "/users/{user}", "/global-parameters/{name}"
_VHOST_LIMIT, _USER_LIMIT = "/vhost-limits/{vhost}/{name}", "/user-limits/{user}/{name}"
_OF_ADMINISTRATORS = (
    _of_administrators("GET", _VHOST, f"{_VHOSTS}:vhost"),
    _of_administrators("PUT", _VHOST, f"{_VHOSTS}:put"),
    _of_administrators("DELETE", _VHOST, f"{_VHOSTS}:delete"),
    _of_administrators("POST", f"{_VHOST}/deletion/protection", f"{_VHOSTS}:protect"),
    _of_administrators("DELETE", f"{_VHOST}/deletion/protection", f"{_VHOSTS}:protect"),
    _of_administrators("POST", f"{_VHOST}/start/{{node}}", f"{_VHOSTS}:start"),
    _of_administrators("GET", f"{_VHOST}/permissions", f"{_VHOSTS}:permissions"),
    _of_administrators("GET", f"{_VHOST}/topic-permissions", f"{_VHOSTS}:topic_permissions"),
    _of_administrators("GET", "/users", f"{_USERS}:users"),
    _of_administrators("GET", "/users/without-permissions", f"{_USERS}:users_without_permissions"),
    _of_administrators("POST", "/users/bulk-delete", f"{_USERS}:bulk_delete"),
    _of_administrators("GET", _USER, f"{_USERS}:user"),
    _of_administrators("PUT", _USER, f"{_USERS}:put"),
    _of_administrators("DELETE", _USER, f"{_USERS}:delete"),
    _of_administrators("GET", f"{_USER}/permissions", f"{_USERS}:permissions"),
    _of_administrators("GET", f"{_USER}/topic-permissions", f"{_USERS}:topic_permissions"),
    _of_administrators("GET", "/permissions", f"{_PERMISSIONS}:permissions"),
    _of_administrators("GET", _PERMISSION, f"{_PERMISSIONS}:permission"),
    _of_administrators("PUT", _PERMISSION, f"{_PERMISSIONS}:put"),
    _of_administrators("DELETE", _PERMISSION, f"{_PERMISSIONS}:delete"),
    _of_administrators("GET", "/topic-permissions", f"{_PERMISSIONS}:topic_permissions"),
    _of_administrators("GET", _TOPIC_PERMISSION, f"{_PERMISSIONS}:topic_permissions_of_one"),
    _of_administrators("PUT", _TOPIC_PERMISSION, f"{_PERMISSIONS}:put_topic"),
    _of_administrators("DELETE", _TOPIC_PERMISSION, f"{_PERMISSIONS}:delete_topic"),
    _of_administrators("DELETE", _ON_EXCHANGE, f"{_PERMISSIONS}:delete_topic"),
    _of_administrators("PUT", _VHOST_LIMIT, f"{_LIMITS}:set_vhost_limit"),
    _of_administrators("DELETE", _VHOST_LIMIT, f"{_LIMITS}:clear_vhost_limit"),
    _of_administrators("GET", "/user-limits", f"{_LIMITS}:user_limits"),
    _of_administrators("PUT", _USER_LIMIT, f"{_LIMITS}:set_user_limit"),
    _of_administrators("DELETE", _USER_LIMIT, f"{_LIMITS}:clear_user_limit"),
    _of_administrators("PUT", _OPERATOR_POLICY, f"{_POLICIES}:put_for_operators"),
    _of_administrators("DELETE", _OPERATOR_POLICY, f"{_POLICIES}:delete_for_operators"),
)
_POLICYMAKER = Tag.POLICYMAKER
_OF_POLICYMAKERS = (
    Row("GET", "/global-parameters", _POLICYMAKER, f"{_PARAMETERS}:parameters"),
    Row("GET", _PARAMETER, _POLICYMAKER, f"{_PARAMETERS}:parameter"),
    Row("PUT", _PARAMETER, _POLICYMAKER, f"{_PARAMETERS}:put", _OBJECT_BYTES_MAX),
    Row("DELETE", _PARAMETER, _POLICYMAKER, f"{_PARAMETERS}:delete"),
    Row("PUT", _POLICY, _POLICYMAKER, f"{_POLICIES}:put", _OBJECT_BYTES_MAX),
    Row("DELETE", _POLICY, _POLICYMAKER, f"{_POLICIES}:delete"),
)
ROWS = (
    *_OF_VHOSTS,
    *_OF_ADMINISTRATORS,
    *_OF_POLICYMAKERS,
    _of_users("GET", "/policies", f"{_POLICIES}:policies"),
    _of_users("GET", "/policies/{vhost}", f"{_POLICIES}:policies_of_vhost"),
    _of_users("GET", _POLICY, f"{_POLICIES}:policy"),
    _of_users("GET", "/operator-policies", f"{_POLICIES}:operator_policies"),
    _of_users("GET", "/operator-policies/{vhost}", f"{_POLICIES}:operator_policies_of_vhost"),
    _of_users("GET", _OPERATOR_POLICY, f"{_POLICIES}:operator_policy"),
    _of_users("GET", "/vhosts", f"{_VHOSTS}:vhosts"),
    _of_users("GET", "/vhost-limits", f"{_LIMITS}:vhost_limits"),
    _of_users("GET", "/vhost-limits/{vhost}", f"{_LIMITS}:limits_of_vhost"),
    _of_users("GET", "/user-limits/{user}", f"{_LIMITS}:limits_of_user"),
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

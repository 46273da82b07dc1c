"""Requests of the management API: rows, bodies, and refusals as RabbitMQ's were recorded."""

from collections.abc import Sequence

import pytest

from headrace.management.requests import errors
from headrace.management.requests.errors import ManagementError
from headrace.management.requests.request import boolean, json_object, required
from headrace.management.requests.table import (
    FoundRow,
    NotAllowed,
    RequestTable,
    Row,
    handler_of,
)
from headrace.management.requests.tags import require_tag
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError
from headrace.operations.queues import OperationRefused
from headrace.operations.tags import Tag
from headrace.queues.refusals import (
    RefusalKind,
    Refused,
    check_same,
    not_found,
    refused,
    resource_text,
)

HANDLER = "headrace.management.requests.request:json_object"
ROWS = (
    Row("GET", "/version", Tag.ANYONE, HANDLER),
    Row("POST", "/login", Tag.ANYONE, HANDLER, 1000),
    Row("DELETE", "/login", Tag.ANYONE, HANDLER),
    Row("GET", "/queues", Tag.MANAGEMENT, HANDLER),
    Row("GET", "/queues/{vhost}", Tag.MANAGEMENT, HANDLER),
    Row("DELETE", "/queues/{vhost}/{name}", Tag.MANAGEMENT, HANDLER),
    Row("PUT", "/queues/{vhost}/{name}", Tag.MANAGEMENT, HANDLER, 1000),
    Row("GET", "/queues/{vhost}/{name}", Tag.MANAGEMENT, HANDLER),
    Row("GET", "/bindings/{vhost}/e/{source}/q/{name}", Tag.MANAGEMENT, HANDLER),
    Row("POST", "/bindings/{vhost}/e/{source}/q/{name}", Tag.MANAGEMENT, HANDLER, 1000),
)
TABLE = RequestTable(ROWS)


@pytest.mark.parametrize("path", ["/queues/%2F/a%2Fb", "/queues/%2F/a%2Fb/"])
def test_a_request_has_the_row_of_its_path_with_or_without_a_slash(path: str) -> None:
    allow = "HEAD, GET, PUT, DELETE, OPTIONS"
    for row in ROWS[5:8]:
        values = {"vhost": "/", "name": "a/b"}
        assert TABLE.find(row.method, path) == FoundRow(row, values, allow)
    assert TABLE.find("HEAD", path) == TABLE.find("GET", path)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/version", "HEAD, GET, OPTIONS"),
        ("/login", "POST, DELETE, OPTIONS"),
        ("/queues/v/q", "HEAD, GET, PUT, DELETE, OPTIONS"),
        ("/bindings/v/e/x/q/y", "HEAD, GET, POST, OPTIONS"),
    ],
)
def test_methods_are_named_in_the_recorded_order(path: str, allow: str) -> None:
    assert TABLE.find("PATCH", path) == NotAllowed(allow)
    assert TABLE.find("OPTIONS", path) == NotAllowed(allow)


@pytest.mark.parametrize("path", ["/", "", "/nosuch", "/queues//q", "/queues/v/q//", "/version/x"])
def test_an_unknown_path_has_no_row(path: str) -> None:
    assert TABLE.find("GET", path) is None


def test_a_method_of_a_pattern_has_one_row() -> None:
    with pytest.raises(InvariantError, match="two rows of GET /queues"):
        RequestTable([*ROWS, ROWS[3]])


def test_a_handler_is_found_by_its_text() -> None:
    found: object = handler_of(ROWS[0])
    assert found is json_object


def refusal_of(body: bytes) -> object:
    """Return the answer to a body that is refused."""
    with pytest.raises(ManagementError) as raised:
        json_object(body)
    assert raised.value.status == 400
    return raised.value.value["reason"]


def test_a_body_is_a_json_object() -> None:
    assert json_object(b"") == {}
    assert json_object(bytearray(b'{"a": [1, 1.5, null, "\xc3\xa9", "\\ud83d\\ude00"]}')) == {
        "a": [1, 1.5, None, "é", "\U0001f600"]
    }


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"1", b"null", b" ", b"{'a':1}", b'{"a":\xff}', b'{"a":NaN}',
        b'{"a":-Infinity}', b'{"a":"\\ud800"}', b'{"a":1}x', b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    assert refusal_of(body) == "not_json"


def test_a_body_that_was_encoded_twice_is_named() -> None:
    assert refusal_of(b'"{}"') == (
        "invalid payload: the request body JSON-decoded to a string."
        " Is the input doubly-JSON-encoded?"
    )


def test_all_missing_keys_are_named() -> None:
    assert required({"a": 1, "b": None}, "b", "a") == [None, 1]
    with pytest.raises(ManagementError) as raised:
        required({"count": 1}, "ackmode", "count", "encoding")
    assert raised.value.value == {
        "error": "bad_request",
        "reason": "[{key_missing,ackmode},{key_missing,encoding}]",
    }


def test_a_boolean_may_be_a_string() -> None:
    document = {"a": True, "b": "false", "c": "maybe", "d": 1}
    assert boolean(document, "a", otherwise=False)
    assert not boolean(document, "b", otherwise=True)
    assert boolean(document, "absent", otherwise=True)
    for key, shown in (("c", "maybe"), ("d", "1")):
        with pytest.raises(ManagementError) as raised:
            boolean(document, key, otherwise=True)
        assert raised.value.value["reason"] == ["not_boolean", shown]


@pytest.mark.parametrize(
    ("refusal", "status", "error", "reason"),
    [
        (errors.not_found(), 404, "Object Not Found", "Not Found"),
        (errors.no_such("vhost_not_found"), 404, "not_found", "vhost_not_found"),
        (errors.not_authorised(), 401, "not_authorised", "Access refused."),
        (errors.not_authorised("Not monitor user"), 401, "not_authorised", "Not monitor user"),
        (errors.wrong_credentials(), 401, "not_authorized", "Not_Authorized"),
        (errors.protected("gold2"), 412, "precondition_failed",
         "Refusing to delete virtual host 'gold2' because it is protected from deletion"),
    ],
)  # fmt: skip
def test_a_refusal_is_as_recorded(
    refusal: ManagementError, status: int, error: str, reason: str
) -> None:
    assert refusal.status == status
    assert refusal.value == {"error": error, "reason": reason}


def inequivalent() -> Refused:
    """Return the refusal of a declaration with another type."""
    with pytest.raises(Refused) as raised:
        check_same("type", resource_text("exchange", "gold-d", "gold"), "fanout", "direct")
    return raised.value


@pytest.mark.parametrize(
    ("refusal", "status", "error", "reason"),
    [
        (not_found("queue", resource_text("queue", "gold-none", "gold")), 404, "not_found",
         "no queue 'gold-none' in vhost 'gold'"),
        (refused("access to exchange 'x' is refused"), 401, "not_authorised", "Access refused."),
        (inequivalent(), 400, "bad_request",
         "inequivalent arg 'type' for exchange 'gold-d' in vhost 'gold': received 'fanout' but"
         " current is 'direct'"),
        (Refused(RefusalKind.LIMIT_REACHED, "queue", "cannot declare queue 'b'"), 400,
         "bad_request", "cannot declare queue 'b'"),
    ],
)  # fmt: skip
def test_a_refusal_of_the_queue_model_is_answered_as_recorded(
    refusal: Refused, status: int, error: str, reason: str
) -> None:
    found = errors.of_refused(refusal)
    assert (found.status, found.value) == (status, {"error": error, "reason": reason})


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 401, "not_authorised"),
        (ErrorCode.INVALID_REQUEST, 400, "bad_request"),
        (ErrorCode.REQUEST_TIMED_OUT, 503, "service_unavailable"),
    ],
)
def test_an_operation_that_fails_has_a_status(code: ErrorCode, status: int, error: str) -> None:
    found = errors.of_api_error(ApiError(code, "because"))
    assert (found.status, found.error) == (status, error)
    assert found.reason == ("Access refused." if status == 401 else "because")


@pytest.mark.parametrize(
    ("code", "reply_code", "status", "error", "reason"),
    [
        (ErrorCode.INVALID_REQUEST, 403, 401, "not_authorised", "Access refused."),
        (ErrorCode.INVALID_REQUEST, 530, 401, "not_authorised", "Access refused."),
        (ErrorCode.INVALID_REQUEST, 405, 400, "bad_request", "RabbitMQ's text"),
        (ErrorCode.INVALID_REQUEST, 406, 400, "bad_request", "RabbitMQ's text"),
        (ErrorCode.RESOURCE_NOT_FOUND, 404, 404, "not_found", "RabbitMQ's text"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 541, 503, "service_unavailable", "RabbitMQ's text"),
    ],
)
def test_a_refusal_of_amqp_has_its_text_without_the_remedy(
    code: ErrorCode, reply_code: int, status: int, error: str, reason: str
) -> None:
    remedied = OperationRefused(code, "CODE - text; and a remedy", reply_code, "RabbitMQ's text")
    found = errors.of_api_error(remedied)
    assert (found.status, found.error, found.reason) == (status, error, reason)


@pytest.mark.parametrize(
    ("tag", "tags", "reason"),
    [
        (Tag.ANYONE, (), ""),
        (Tag.MANAGEMENT, ("monitoring",), ""),
        (Tag.MANAGEMENT, (), "Not management user"),
        (Tag.ADMINISTRATOR, ("impersonator",), "Not management user"),
        (Tag.ADMINISTRATOR, ("policymaker", "monitoring"), "Not administrator user"),
        (Tag.MONITORING, ("policymaker",), "Not monitor user"),
        (Tag.POLICYMAKER, ("monitoring",), "User not authorised to access object"),
        (Tag.POLICYMAKER, ("administrator",), ""),
    ],
)
def test_a_tag_that_does_not_suffice_is_named(tag: Tag, tags: Sequence[str], reason: str) -> None:
    if not reason:
        require_tag(tag, tags)
        return
    with pytest.raises(ManagementError) as raised:
        require_tag(tag, tags)
    assert raised.value.status == 401
    assert raised.value.value == {"error": "not_authorised", "reason": reason}

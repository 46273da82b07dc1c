"""Refusals of the management API: RabbitMQ's status, `error` and `reason` (recorded from 4.3).

Missing rights are 401, never 403. A reason is a text or, as recorded, a list of texts.
"""

from collections.abc import Sequence

from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.operations.queues import OperationRefused
from headrace.queues.refusals import RefusalKind, Refused

Reason = str | list[str]
DOUBLY_ENCODED = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)
ACCESS_REFUSED = "Access refused."
_RIGHTS = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

_INVALID = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }
)

_REFUSED_CODES = frozenset({403, 530})
"""AMQP's reply codes ACCESS_REFUSED and NOT_ALLOWED."""


class ManagementError(HeadraceError):
    """A refused request of the management API."""

    def __init__(self, status: int, error: str, reason: Reason) -> None:
        """`status` is the HTTP status; `error` and `reason` are members of the JSON answer."""
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason

    @property
    def value(self) -> dict[str, object]:
        """The JSON answer."""
        return {"error": self.error, "reason": self.reason}


def not_found() -> ManagementError:
    """Return the refusal of an unknown path or object."""
    return ManagementError(404, "Object Not Found", "Not Found")


def no_such(reason: str) -> ManagementError:
    """Return the refusal of a change to an object that is missing, as `vhost_not_found`."""
    return ManagementError(404, "not_found", reason)


def bad_request(reason: Reason) -> ManagementError:
    """Return the refusal of an invalid request."""
    return ManagementError(400, "bad_request", reason)


def not_json() -> ManagementError:
    """Return the refusal of a body that is no JSON object."""
    return bad_request("not_json")


def keys_missing(keys: Sequence[str]) -> ManagementError:
    """Return the refusal of a JSON object without keys that it must have."""
    return bad_request(f"[{','.join(f'{{key_missing,{key}}}' for key in keys)}]")


def not_authorised(reason: str = ACCESS_REFUSED) -> ManagementError:
    """Return the refusal of a user whose rights do not suffice."""
    return ManagementError(401, "not_authorised", reason)


def wrong_credentials() -> ManagementError:
    """Return the refusal of credentials that are not a user's; spelled as RabbitMQ does."""
    return ManagementError(401, "not_authorized", "Not_Authorized")


def protected(vhost: str) -> ManagementError:
    """Return the refusal to delete a virtual host that is protected from deletion."""
    reason = f"Refusing to delete virtual host '{vhost}' because it is protected from deletion"
    return ManagementError(412, "precondition_failed", reason)


def of_refused(refused: Refused) -> ManagementError:
    """Return the answer to an operation that the queue model refuses."""
    if refused.kind is RefusalKind.ACCESS_REFUSED:
        return not_authorised()
    if refused.kind is RefusalKind.NOT_FOUND:
        return no_such(str(refused))
    return bad_request(str(refused))


def of_api_error(error: ApiError) -> ManagementError:
    """Return the answer to an operation that fails: 401, 404, 400, or 503 to be repeated later."""
    reason = error.reason if isinstance(error, OperationRefused) else error.message
    reason = reason or error.code.name
    reply_code = error.reply_code if isinstance(error, OperationRefused) else None
    if error.code in _RIGHTS or reply_code in _REFUSED_CODES:
        return not_authorised()
    if error.code is ErrorCode.RESOURCE_NOT_FOUND:
        return no_such(reason)
    if error.code in _INVALID:
        return bad_request(reason)
    return ManagementError(503, "service_unavailable", reason)

"""Authentication of RocketMQ clients: each request is signed, as by RocketMQ's `AclClientRPCHook`.

signature = base64(HMAC-SHA1(secret, values + body))
values    = the values of all fields but Signature, in the order of their names, as UTF-8
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.model.secret import Secret
from headrace.security.identity import ANONYMOUS, USER, Identity, Principal
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from headrace.security.audit import Audit
    from headrace.wire.rocketmq.commands import RemotingCommand

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"
"""The fields that a signed request has more than others; SecurityToken may come with them."""
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_SIGNS_UNIQUE_KEY_QUERY_SINCE = 400
"""The number of the first version, behind 4.9.3, that adds that field before it signs."""
_NO_SUCH_KEY = Secret("the secret of access keys that do not exist")
"""Makes an unknown key cost the time of a known one."""
_LOGGED_CHARACTERS_MAX = 100


class SignedRequests:
    """The check of requests' signatures. Called on the deciding thread."""

    def __init__(self, secrets: Mapping[str, Secret], audit: "Audit") -> None:
        """`secrets`: by access key; without any, requests are not checked."""
        self._secrets = secrets
        self._audit = audit

    @property
    def is_required(self) -> bool:
        """Whether requests are checked."""
        return bool(self._secrets)

    def identity(self, connected: Identity, command: "RemotingCommand") -> Identity:
        """Return the identity that a request has at a connection.

        It is `User:` and the access key if the request is signed, else that of the client's
        certificate. Raises RequestRefused, and writes an audit line, if there is neither, or if
        the signature is wrong; a certificate does not help then. The connection stays open.
        """
        if not self._secrets:
            return connected
        fields = command.fields or {}
        key = fields.get(ACCESS_KEY)
        if key is None:
            if connected.principal == ANONYMOUS:
                raise self._refusal(connected, command, "the request has no AccessKey")
            return connected
        secret = self._secrets.get(key)
        expected = signature_of(command, secret or _NO_SUCH_KEY)
        right = hmac.compare_digest(expected, fields.get(SIGNATURE, "").encode(errors="replace"))
        if secret is None or not right:
            reason = "unknown access key" if secret is None else "wrong signature"
            raise self._refusal(connected, command, reason, key[:_LOGGED_CHARACTERS_MAX])
        return connected._replace(principal=Principal(USER, key))

    def _refusal(
        self, connected: Identity, command: "RemotingCommand", reason: str, key: str | None = None
    ) -> RequestRefused:
        """Return the refusal; to the client, an unknown key is a wrong signature."""
        by = RequestCode(command.code).name
        self._audit.unauthenticated(connected, by=by, reason=reason, access_key=key)
        remark = reason if key is None else "check signature failed"
        return RequestRefused(ResponseCode.NO_PERMISSION, remark)


def signature_of(command: "RemotingCommand", secret: Secret) -> bytes:
    """Return the signature that a request has if its client knows the secret."""
    values = "".join(
        value
        for name, value in sorted((command.fields or {}).items())
        if name != SIGNATURE and not _is_added_later(command, name)
    )
    content = values.encode(errors="replace") + command.body
    return b64encode(hmac.digest(secret.reveal().encode(), content, "sha1"))


def _is_added_later(command: "RemotingCommand", name: str) -> bool:
    return name == _UNIQUE_KEY_QUERY and command.version < _SIGNS_UNIQUE_KEY_QUERY_SINCE

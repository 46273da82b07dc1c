"""Who may ask about AMQP: the cluster's rights say, for each operation that there is."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any, cast, get_origin, get_type_hints

import pytest

from headrace.frontends.amqp.administration import Administration
from headrace.frontends.kafka.admin import administration
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.net.pending import Pending
from headrace.operations.permissions import Caller
from headrace.operations.registry import Operations
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.audit import Audit
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.security.identity import USER, Identity, Principal
from headrace.security.rules import RuleAuthorizer
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.administration import (
    OperationRequest,
    OperationResponse,
    decode_request,
    decode_response,
    encode_request,
)
from headrace.wire.kafka.writer import Writer
from tests.support.amqp.channels import QueueRoom
from tests.support.coordination.groups_kit import HandClock

WORD = "w"
RIGHTS = {"reader": Operation.DESCRIBE, "changer": Operation.ALTER}


class Noted:
    """Operations that note that they were called, and do nothing."""

    def __init__(self) -> None:
        queues = QueueRoom().broker
        settings: Any = SimpleNamespace(definitions=queues._admission.definitions, users=None)
        operations = Administration(settings, queues, settings, settings).operations
        self.kinds = [kind for kind in operations if kind.RETURNS_JSON]
        self.asked: list[str] = []

    @property
    def names(self) -> list[str]:
        return [kind.OPERATION for kind in self.kinds]

    def operations(self, broker: Any) -> Operations:
        """Return those of a broker."""
        made = Operations(broker)
        made.add(dict.fromkeys(self.kinds, self.note))
        return made

    async def note(self, caller: Caller, arguments: Any) -> None:
        self.asked.append(arguments.OPERATION)
        if getattr(arguments, "vhost", None) not in {None, WORD}:
            raise ApiError(ErrorCode.INVALID_REQUEST, arguments.vhost)


def arguments_of(noted: Noted, operation: str) -> dict[str, Any]:
    """Return the arguments that an operation must be given."""
    (kind,) = [kind for kind in noted.kinds if operation == kind.OPERATION]
    required = [each for each in fields(cast("Any", kind)) if each.default is MISSING]
    given = {each.name: WORD for each in required if each.default_factory is MISSING}
    types = get_type_hints(kind)
    return {
        name: [1] if name == "members" else {} if get_origin(types[name]) is Mapping else word
        for name, word in given.items()
    }


def answer(noted: Noted | None, caller: str, operation: str, **question: Any) -> OperationResponse:
    """Return what a user of Kafka's protocol is answered."""
    rules = AclRules()
    rules.put(
        Resource(ResourceType.CLUSTER, CLUSTER_NAME),
        [AclEntry(f"User:{who}", "*", right, Permission.ALLOW) for who, right in RIGHTS.items()],
    )

    async def main() -> OperationResponse:
        tasks: list[asyncio.Task[None]] = []
        broker: Any = SimpleNamespace(
            authorizer=RuleAuthorizer([rules], super_users=[Principal(USER, "root")]),
            audit=Audit(HandClock()),
        )
        shared = SimpleNamespace(
            operations=Operations(broker) if noted is None else noted.operations(broker),
            spawn=lambda work: tasks.append(asyncio.create_task(work)),
        )
        context = RequestContext(
            broker, cast("Any", None), cast("Any", None),
            ApiKey.AMQP_ADMINISTRATION, 0, "c",
            Identity("127.0.0.1", "SASL", Principal(USER, caller)), cast("Any", shared),
        )  # fmt: skip
        body = encode_request(0, OperationRequest(operation, question))
        pending = administration.handle(context, memoryview(body))
        assert isinstance(pending, Pending)
        await asyncio.gather(*tasks)
        parts = pending.parts()
        assert isinstance(parts, bytes)
        return decode_response(0, memoryview(parts))

    return asyncio.run(main())


def test_every_operation_asks_for_the_right_to_list_or_to_change() -> None:
    noted = Noted()
    listing = {name for name in noted.names if name.endswith(".list")}
    assert len(listing) == 11
    for name in noted.names:
        allowed = {"root", "reader" if name in listing else "changer"}
        # ALTER implies DESCRIBE, as Kafka's ACLs have it.
        allowed |= {"changer"}
        for user in ("nobody", "reader", "changer", "root"):
            del noted.asked[:]
            told = answer(noted, user, name, **arguments_of(noted, name))
            refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert told.error_code == (0 if user in allowed else refused), (name, user)
            assert noted.asked == ([name] if user in allowed else [])


def test_what_is_no_operation_is_refused_before_anybody_is_asked_for_rights() -> None:
    told = answer(Noted(), "nobody", "vhost.explode")
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert "vhost.explode" in (told.error_message or "")


def test_a_broker_that_speaks_no_amqp_says_so() -> None:
    told = answer(None, "root", "vhost.list")
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_hash_is_in_no_line_of_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        answer(Noted(), "root", "user.put", name="bob", hash="planted-hash-3")
        answer(Noted(), "nobody", "user.put", name="bob", hash="planted-hash-3")
    assert "user.put" in caplog.text
    assert "hash=***" in caplog.text
    assert "planted-hash-3" not in caplog.text


@pytest.mark.parametrize(
    ("refused", "told"),
    [("x" * 100_000, "x" * 2000), ("x" * 2000, "x" * 2000), ("\ud800", r"\ud800")],
)
def test_a_refusal_that_repeats_what_was_asked_has_room_in_its_answer(
    caplog: pytest.LogCaptureFixture, refused: str, told: str
) -> None:
    # What is captured goes to the process that reports, as UTF-8.
    caplog.set_level(logging.ERROR, "headrace.security.audit")
    answered = answer(Noted(), "root", "queue.declare", vhost=refused, name=WORD)
    assert (answered.error_code, answered.error_message) == (ErrorCode.INVALID_REQUEST, told)


@pytest.mark.parametrize("text", [b"", b"[]", b"nonsense", b"\xff", b"7", b"[" * 100_000])
def test_a_question_that_is_no_object_of_json_is_malformed(text: bytes) -> None:
    writer = Writer()
    writer.string("vhost.list")
    writer.bytes(text)
    with pytest.raises(Malformed):
        decode_request(memoryview(bytes(writer.out)))

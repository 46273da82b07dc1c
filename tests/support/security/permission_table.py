"""Door x operation x resource x role: what each cell is to answer, derived from the APIs' table.

The requests are those of `authorisation_cases`, one or more for each question of each API. What an
API asks is `ASKED`; one that is in no table fails `test_permission_table`.
"""

import time
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headrace.broker.metadata_image import ImageDelta
from headrace.frontends.kafka.authentication.authorisation import (
    ASKED,
    CLUSTER_ACTION,
    NOT_ASKED,
)
from headrace.frontends.kafka.connection.registry import APIS
from headrace.model.errors import ErrorCode
from headrace.server.assembly import Server
from headrace.wire.kafka.api import ApiKey
from tests.support.security.authorisation import all_state, errors
from tests.support.security.authorisation_cases import CASES
from tests.support.security.authorisation_values import (
    BEGINS,
    CLUSTER,
    FURNISHED,
    GROUP,
    NOT_ATTEMPTED,
    SECOND,
    TOPIC,
    TRANSACTION,
    Case,
    Values,
    added_by,
    share_fetched,
)
from tests.support.security.doors import Door, House, Role, Way
from tests.support.security.sasl_kit import WAIT_SECONDS

if TYPE_CHECKING:
    from headrace.ports.store import Store
    from tests.support.processes.broker import Room

FAILED = {TOPIC: "T", GROUP: "G", CLUSTER: "C", TRANSACTION: "X", 65: "D"}
"""The errors of a refusal, by the letter that stands for each in the printed table."""
SILENT = {
    ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}  # fmt: skip
"""Where who may not see something is told of nothing, and of no error."""
BEFORE_AUTHENTICATION = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


OF_SHARE_SESSIONS = {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
OF_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}  # fmt: skip
"""What nobody is answered who has not shown who he is, whatever he may."""


class Answer(Enum):
    """What a cell is to answer."""

    ALLOWED = "yes"
    REFUSED = "refused"
    CLOSED = "closed"
    """The connection ends without an answer."""
    NO_DOOR = "no handshake"
    """TLS lets nobody in."""


class Question(NamedTuple):
    """One row: a request of an API, and what it is refused for."""

    key: ApiKey
    number: int
    """Which of the API's cases."""

    @property
    def case(self) -> Case:
        """Return the request."""
        return CASES[self.key][self.number]

    def __str__(self) -> str:
        asks = " or ".join(f"{ask.operation.name} {ask.kind.name}" for ask in self.case.refused)
        return f"{self.key.name} v{self.case.version}: {asks or 'whatever he may'}"


def questions() -> Iterator[Question]:
    """Return all rows; an API that asks and has no request is a KeyError."""
    for key in ASKED:
        for number in range(len(CASES[key])):
            yield Question(key, number)


def expected(question: Question, role: Role) -> Answer:
    """Return what who plays the role is answered, by whichever door he came, where ACLs decide."""
    asks = question.case.refused
    if role in (Role.RULED, Role.SUPER) or (role is Role.BROKER and CLUSTER_ACTION in asks):
        return Answer.ALLOWED
    if role is Role.DENIED and not asks:
        return Answer.ALLOWED
    return Answer.REFUSED


def of_nobody(key: ApiKey, door: Door) -> Answer:
    """Return what who has no name is answered behind a door that wants one."""
    if door is Door.MUTUAL_TLS:
        return Answer.NO_DOOR
    return Answer.ALLOWED if key in BEFORE_AUTHENTICATION else Answer.CLOSED


def of_open_listeners(door: Door, role: Role) -> Answer:
    """Return what holds without authorizer: plain text on the loopback is open, the rest is not."""
    return Answer.ALLOWED if door is Door.PLAINTEXT or role is Role.SUPER else Answer.REFUSED


def wrong(question: Question, way: Way, wanted: Answer, answer: Any) -> str | None:
    """Return what is wrong with an answer, None where it is as wanted."""
    case, role = question.case, way.role
    if answer is None:
        return "the connection was closed"
    found = {error for error in errors(answer) if error[1] != NOT_ATTEMPTED}
    if question.key in OF_TOKENS and way.door is Door.PLAINTEXT:
        asked = {("error_code", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)}
        return None if found == asked else f"{sorted(found)}"
    refused = {code for _, code in found} & FAILED.keys()
    silent = case.left_out is not None and case.left_out(answer)
    if wanted is Answer.ALLOWED:
        by_shape = case.errors if not case.refused else frozenset()
        if refused and not (by_shape and found == by_shape):
            return f"refused by {sorted(found)}"
        return "left out" if silent else None
    if role is Role.DENIED and wanted is Answer.REFUSED:
        return (
            None if found == case.errors and silent == bool(case.left_out) else f"{sorted(found)}"
        )
    # Who may do nothing may be refused by an earlier question of the same API than this row's.
    possible = {code for other in CASES[question.key] for _, code in other.errors}
    if {code for _, code in found} - possible:
        return f"refused by {sorted(found)}, which is none of {sorted(possible)}"
    return None if refused or silent or question.key in SILENT else "not refused"


class Table:
    """Plays cells against a house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.played = 0
        self._has_token = False

    def furnish(self) -> None:
        """Have what requests are about: topic t, groups g, k, s, and transactional id x."""
        broker, way = self.house.broker, Way(Door.SASL_PLAINTEXT, Role.SUPER)
        broker.call(alone)
        broker.delete_topics("new")
        self.make_topic()
        for key, version, values in FURNISHED:
            self.ask_until_done(way, key, version, values)
        if not self._has_token:
            self.ask_until_done(
                way, ApiKey.CREATE_DELEGATION_TOKEN, 3, {"max_lifetime": SECOND * 900}
            )
            self._has_token = True

    def open_transaction(self) -> None:
        """Have x be in the middle of a transaction with topic t."""
        way = Way(Door.SASL_PLAINTEXT, Role.SUPER)
        made = self.ask_until_done(way, ApiKey.INIT_PRODUCER_ID, 4, BEGINS)
        opens = added_by(made.producer_id, made.producer_epoch)
        self.ask_until_done(way, ApiKey.ADD_PARTITIONS_TO_TXN, 3, opens)

    def ask_until_done(self, way: Way, key: ApiKey, version: int, values: Values) -> Any:
        """Ask until the answer has no error: coordinators are loaded, or are at something else."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self.house.ask(way, key, version, values)
            if not errors(answer):
                return answer
            assert time.monotonic() < until, answer
            time.sleep(0.02)
            self.make_topic()

    def make_topic(self) -> None:
        """Have topic t be there; where it is being deleted, the next time."""
        self.house.broker.create_topics("t")

    def values(self, case: Case) -> Values:
        """Return a request's values, as they are now."""
        made = case.values

        def make(server: Server) -> Values:
            return made(cast("Room", server)) if callable(made) else made

        return self.house.broker.call(make)

    def ask(self, way: Way, question: Question) -> Any:
        """Play one request."""
        self.played += 1
        if question.key is ApiKey.SHARE_ACKNOWLEDGE:  # it needs a session, which ShareFetch opens
            opened = self.house.broker.call(lambda server: share_fetched(cast("Room", server)))
            self.house.ask(way, ApiKey.SHARE_FETCH, 2, {**opened, **_own(way)})
        case, values = question.case, self.values(question.case)
        if question.key in OF_SHARE_SESSIONS:
            values = {**values, **_own(way)}
        return self.house.ask(way, question.key, case.version, values)

    def state(self) -> tuple[Any, ...]:
        """Return what a request could have changed, but for what groups write by themselves."""
        return self.house.broker.run(_state)


def _own(way: Way) -> Values:
    """Return the member that a client is, which is nobody else."""
    return {"member_id": f"{way.door.name}-{way.role.name}"}


def alone(server: Server) -> None:
    """Take back the broker that is there while a follower's fetch is played."""
    broker = server.broker
    own = [one for one in broker.image.brokers.values() if one.broker_id == broker.broker_id]
    if len(own) < len(broker.image.brokers):
        broker.publish(ImageDelta(brokers=own))


async def _state(server: Server) -> tuple[Any, ...]:
    _, logs, *rest = await all_state(server.broker, cast("Store", server._store))
    return {key: ends for key, ends in logs.items() if not key[0].startswith("__")}, rest


def print_table() -> str:
    """Return the whole table as Markdown: one row a question, one column a role."""
    roles = "".join(f" {role.value} |" for role in Role)
    lines = [f"| API and what it asks | nobody |{roles}", "|---|---|" + "---|" * len(Role)]
    for question in questions():
        letters = sorted({FAILED[code] for _, code in question.case.errors})
        shown = "".join(letters) or "left out"
        cells = ["yes" if expected(question, role) is Answer.ALLOWED else shown for role in Role]
        lines.append(f"| {question} | no | {' | '.join(cells)} |")
    for key in NOT_ASKED:
        nobody = "yes" if key in BEFORE_AUTHENTICATION else "no"
        lines.append(f"| {key.name}: asks nothing | {nobody} |" + " yes |" * len(Role))
    served = {api.key for api in APIS}
    rest = ", ".join(key.name for key in ApiKey if key not in served)
    lines.append(f"| not served to clients: {rest} | no |" + " no |" * len(Role))
    return "\n".join(lines) + "\n"

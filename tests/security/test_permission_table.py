"""Every door, operation, resource and role: each cell is played, and answers what is expected.

The rows come from the table of what APIs ask, so an API that is added and asks what has no request
fails here. `make security-test` plays all; `make test` one door with a name and the one without.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.frontends.http.routes import PATHS
from headrace.frontends.kafka.authentication.authorisation import ASKED, NOT_ASKED, Ask
from headrace.frontends.kafka.connection.registry import APIS
from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import CLUSTER_NAME, Resource, ResourceType
from headrace.security.identity import Identity, Principal
from headrace.security.rules import Reach, RuleAuthorizer, Ruling
from headrace.wire.kafka.api import VERSIONS, ApiKey
from headrace.wire.kafka.frame import request_head
from tests.support.security.authorisation import errors, frame_of
from tests.support.security.authorisation_cases import CASES
from tests.support.security.doors import Door, House, Role, Way, authorizer_of, raw
from tests.support.security.permission_table import (
    BEFORE_AUTHENTICATION,
    FAILED,
    Answer,
    Question,
    Table,
    expected,
    of_nobody,
    of_open_listeners,
    print_table,
    questions,
    wrong,
)

LONG = bool(os.environ.get("HEADRACE_LONG"))
DOORS = list(Door) if LONG else [Door.PLAINTEXT, Door.SASL_PLAINTEXT]
ACLS = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
OF_TRANSACTIONS = {ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS}
SERVED = {api.key for api in APIS}
README = Path(__file__).parent / "README.md"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """A broker whose ACLs decide."""
    settings = {
        **ACLS, "transaction_two_phase_commit_enable": "true", "metrics_listener": "127.0.0.1:0",
    }  # fmt: skip
    with House(tmp_path_factory.mktemp("house"), **settings) as house:
        made = Table(house)
        made.furnish()
        yield made
        print(f"\npermission table: {made.played} cells were played")


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """A broker with the same doors and no authorizer."""
    with House(tmp_path_factory.mktemp("unguarded")) as house:
        made = Table(house)
        made.furnish()
        yield made


def test_every_api_that_is_served_is_in_the_table() -> None:
    assert set(ASKED) | set(NOT_ASKED) == SERVED
    assert {question.key for question in questions()} == set(ASKED)
    for key, asks in ASKED.items():
        assert {ask for case in CASES[key] for ask in case.refused} == set(asks), key.name


def test_the_printed_table_is_the_one_that_is_played() -> None:
    told = README.read_text()
    assert print_table() in told, "python -m tests.security.write_table"


@pytest.mark.parametrize("key", ASKED, ids=lambda key: key.name)
def test_each_role_behind_each_door_is_answered_as_the_table_says(
    table: Table, key: ApiKey
) -> None:
    table.furnish()
    if key in OF_TRANSACTIONS:
        table.open_transaction()
    rows = [question for question in questions() if question.key is key]
    cells = [(question, role) for question in rows for role in Role]
    refused = [cell for cell in cells if expected(*cell) is Answer.REFUSED]
    before = table.state()
    found = [problem for cell in refused for problem in play(table, *cell)]
    assert not found
    assert table.state() == before, "who was refused has changed something"
    allowed = [cell for cell in cells if cell not in refused]
    found = [problem for cell in allowed for problem in play(table, *cell)]
    assert not found


def play(table: Table, question: Question, role: Role) -> list[str]:
    """Play one row for one role behind all doors; what is wrong."""
    wanted, found = expected(question, role), []
    table.house.rule(ASKED[question.key], question.case.refused, role)
    for door in DOORS:
        way = Way(door, role)
        answer = table.ask(way, question)
        problem = wrong(question, way, wanted, answer)
        if problem:
            found.append(f"{question}: {role.value} by {door.value}: {problem}: {answer}")
        if wanted is Answer.ALLOWED and question.case.acts:
            table.furnish()
    return found


def test_what_asks_nothing_is_answered_to_everybody_who_has_a_name(table: Table) -> None:
    for key in NOT_ASKED:
        for door in DOORS:
            for role in Role:
                answer = table.house.ask(Way(door, role), key, VERSIONS[key][1], {})
                assert answer is not None, (key, door, role)
                assert not {code for _, code in errors(answer)} & FAILED.keys(), answer


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in SERVED], ids=lambda k: k.name)
def test_what_is_not_served_to_clients_ends_the_connection_of_everybody(
    table: Table, key: ApiKey
) -> None:
    before = table.state()
    for door in DOORS:
        for role in (Role.SUPER, Role.BROKER):
            with table.house.come(Way(door, role)) as connection:
                connection.send(bytes(request_head(key, 0, 7, "test", 20))[4:] + bytes(20))
                assert connection.frame() is None, (key, door, role)
    assert table.state() == before


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_before_authentication_every_api_key_ends_the_connection_and_makes_nothing(
    table: Table, key: ApiKey
) -> None:
    before = table.state()
    for door in (Door.SASL_PLAINTEXT, Door.SASL_SSL):
        for frame in frames_of(table, key):
            with table.house.stranger(door) as connection:
                connection._socket.sendall(frame)
                answered = connection.frame() is not None
                assert answered is (of_nobody(key, door) is Answer.ALLOWED), (key, door)
    assert table.state() == before


def frames_of(table: Table, key: ApiKey) -> Iterator[bytes]:
    """Return sound requests of an API, and one of zeros where there is none."""
    for case in CASES.get(key, []):
        yield frame_of(key, case.version, table.values(case))
    if key in BEFORE_AUTHENTICATION:
        yield frame_of(key, VERSIONS[key][1], {})
    elif key not in CASES:
        yield bytes(request_head(key, 0, 7, "test", 20)) + bytes(20)


def test_who_shows_no_certificate_has_no_connection_where_one_is_wanted(table: Table) -> None:
    assert of_nobody(ApiKey.API_VERSIONS, Door.MUTUAL_TLS) is Answer.NO_DOOR
    answered = b""
    # TLS 1.3 tells a client only after its own part that it is refused.
    refused = contextlib.suppress(ssl.SSLError, ConnectionResetError)
    with refused, table.house.stranger(Door.MUTUAL_TLS) as connection:
        connection._socket.sendall(frame_of(ApiKey.API_VERSIONS, 0, {}))
        answered = connection._socket.recv(1)
    assert answered == b""


@pytest.mark.parametrize("key", ASKED, ids=lambda key: key.name)
def test_without_an_authorizer_plain_text_on_the_loopback_is_open_and_no_other_door(
    unguarded: Table, key: ApiKey
) -> None:
    unguarded.furnish()
    if key in OF_TRANSACTIONS:
        unguarded.open_transaction()
    question = Question(key, 0)
    before = unguarded.state()
    ways = [Way(door, role) for door in DOORS for role in (Role.UNRULED, Role.BROKER, Role.SUPER)]
    for wanted in (Answer.REFUSED, Answer.ALLOWED):
        for way in ways:
            if of_open_listeners(*way) is wanted:
                answer = unguarded.ask(way, question)
                assert wrong(question, way, wanted, answer) is None, (question, way, answer)
                if wanted is Answer.ALLOWED and question.case.acts:
                    unguarded.furnish()
        assert wanted is Answer.ALLOWED or unguarded.state() == before


HTTP_METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PRI")


def test_by_http_nothing_can_be_done_and_no_api_is_answered(table: Table) -> None:
    http = table.house.broker.server.http
    assert http is not None
    port = http.address[1]
    table.house.rule([], [], Role.UNRULED)  # other tests leave rules of their own
    before = table.state()
    fields = "Host: x\r\nConnection: close\r\n\r\n"
    for path in PATHS:
        answer = raw(port, f"GET {path} HTTP/1.1\r\n{fields}".encode())
        # Monitoring is open; an operation asks the authorizer, and nobody authenticates here.
        assert answer[9:12] == (b"403" if path.startswith("/api/") else b"200"), (path, answer)
        for method in HTTP_METHODS:
            answer = raw(port, f"{method} {path} HTTP/1.1\r\n{fields}".encode())
            assert answer[9:12] == b"405", (method, path, answer)
    for key in ApiKey:
        for frame in frames_of(table, key):
            answer = raw(port, frame + b"\r\n\r\n")
            assert answer == b"" or answer[9:12] in (b"400", b"405"), (key, answer)
    assert table.state() == before


class MadeUpDoor:
    """A protocol of its own with permissions of its own, by tags: what a later door is like.

    A request is a line, `WRITE TOPIC name`; the answer is `done` or `refused`.
    """

    def __init__(self, authorizer: RuleAuthorizer) -> None:
        self._authorizer = authorizer
        self.done: list[str] = []

    def ask(self, identity: Identity, line: str) -> str:
        """Do what a line says, or refuse it."""
        operation, kind, name = line.split(" ")
        ask = next(ask for asks in ASKED.values() for ask in asks
                   if (ask.operation.name, ask.kind.name) == (operation, kind))  # fmt: skip
        if not self._authorizer.allows(identity, ask.operation, Resource(ask.kind, name)):
            return "refused"
        self.done.append(line)
        return "done"


class ByTags:
    """The permissions of that door: whoever has the tag may do everything by it. `RuleSource`."""

    version = 1

    def __init__(self, allowed: str) -> None:
        self._allowed = allowed

    def ruling(self, identity: Identity, operation: object, resource: Resource) -> Ruling:
        """Return what the tags say."""
        return Ruling.ALLOWED if self._allowed in identity.tags else Ruling.SILENT

    def reach(self, identity: Identity, operation: object, kind: ResourceType) -> Reach:
        """Return everything or nothing."""
        return Reach([{ANY_NAME}] if self._allowed in identity.tags else [], [], [], [])


@pytest.mark.parametrize("role", Role, ids=lambda role: role.name)
@pytest.mark.parametrize("tagged", [False, True])
def test_a_door_with_rules_of_its_own_is_bound_by_kafkas_as_well(role: Role, tagged: bool) -> None:
    asks = sorted({ask for asks in ASKED.values() for ask in asks})
    for ask in asks:
        of_acls = authorizer_of(role, [ask], [ask])
        both = RuleAuthorizer(
            [*of_acls.sources, ByTags("vhost-admin")], super_users=of_acls._super_users
        )
        player = Identity(
            "127.0.0.1", "MADE-UP", Principal("User", role.user),
            frozenset({"vhost-admin"}) if tagged else frozenset(),
        )  # fmt: skip
        name = CLUSTER_NAME if ask.kind is ResourceType.CLUSTER else "some-name"
        door = MadeUpDoor(both)
        answer = door.ask(player, f"{ask.operation.name} {ask.kind.name} {name}")
        assert answer == ("done" if may(ask, role, tagged=tagged) else "refused"), (ask, role)
        nobody = player._replace(principal=Principal("User", "stranger"), tags=frozenset())
        assert door.ask(nobody, f"{ask.operation.name} {ask.kind.name} {name}") == "refused"
        assert len(door.done) == (answer == "done")


def may(ask: Ask, role: Role, *, tagged: bool) -> bool:
    """Return the cell's expected answer: a denial by ACLs wins over what tags allow."""
    if role is Role.DENIED:
        return False
    by_rule = role in (Role.RULED, Role.SUPER)
    return by_rule or tagged or (role is Role.BROKER and ask.operation.name == "CLUSTER_ACTION")

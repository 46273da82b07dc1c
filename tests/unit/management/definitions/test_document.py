"""Definitions documents: older exports, refusals with their line, bounds."""

import json
from typing import Any

import pytest

from headrace.management.definitions import document as documents
from headrace.management.definitions.document import DefinitionsDocument
from headrace.management.definitions.elements import ELEMENT_BYTES_MAX, MEMBERS_MAX
from headrace.management.definitions.members import DEPTH_MAX, NESTED_MAX, DefinitionsError
from headrace.management.definitions.objects import (
    BINDINGS,
    EXCHANGES,
    GLOBAL_PARAMETERS,
    PERMISSIONS,
    POLICIES,
    QUEUES,
    USERS,
    VHOSTS,
    Exchange,
    Permission,
    PolicyDefinition,
    Queue,
    Section,
    User,
    Vhost,
)
from headrace.model.invariant import InvariantError

HASH = "2lmoth8l4H0DViLaK9Fxi6l9ds8="
OF_3_5 = {
    "rabbit_version": "3.5.7",
    "users": [{"name": "ann", "password_hash": HASH, "tags": "administrator, own,"}],
    "vhosts": [{"name": "/"}],
    "permissions": [
        {"user": "ann", "vhost": "/", "configure": "", "write": ".*", "read": ".*"}
    ],
    "parameters": [],
    "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "definition": {"ha-mode": "all"}}],
    "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [
        {"name": "x", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False,
         "internal": True, "arguments": []},
    ],
    "bindings": [],
}  # fmt: skip


def checked(body: object, vhost: str | None = None) -> DefinitionsDocument:
    """Return a checked document; what is not bytes is written as JSON."""
    written = body if isinstance(body, (bytes, bytearray)) else json.dumps(body).encode()
    document = DefinitionsDocument(written, vhost)
    for _ in document.check():
        pass
    return document


def objects(document: DefinitionsDocument, section: Section[Any]) -> list[Any]:
    return [each.value for step in document.objects(section) for each in step]


def refusal(body: object, vhost: str | None = None) -> DefinitionsError:
    with pytest.raises(DefinitionsError) as refused:
        checked(body, vhost)
    return refused.value


def test_an_export_of_3_5_is_read_with_its_defaults() -> None:
    document = checked(OF_3_5)
    assert objects(document, USERS) == [
        User("ann", ("administrator", "own"), {}, password_hash=HASH)
    ]
    assert document.hashing_algorithm == "rabbit_password_hashing_md5"
    assert objects(document, VHOSTS) == [Vhost("/")]
    assert objects(document, PERMISSIONS) == [Permission("ann", "/", "", ".*", ".*")]
    policy = {"pattern": "^q", "definition": {"ha-mode": "all"}}
    assert objects(document, POLICIES) == [PolicyDefinition("/", "p", policy)]
    assert objects(document, QUEUES) == [Queue("/", "q")]
    assert objects(document, EXCHANGES) == [Exchange("/", "x", "direct", internal=True)]
    assert objects(document, BINDINGS) == []
    assert document.counts == {
        "users": 1, "vhosts": 1, "permissions": 1, "policies": 1, "queues": 1, "exchanges": 1,
    }  # fmt: skip


def test_queues_and_exchanges_are_durable_unless_they_say_otherwise() -> None:
    document = checked({"queues": [QUEUE], "exchanges": [{**QUEUE, "type": "fanout"}]})
    assert objects(document, QUEUES) == [Queue("/", "q", True, False, {})]
    assert objects(document, EXCHANGES) == [Exchange("/", "q", "fanout", True, False, False, {})]


def test_members_of_a_3_8_vhost_count_before_those_of_its_metadata() -> None:
    vhost = {"name": "v", "description": "d", "tags": "a,b", "tracing": False,
             "metadata": {"description": "m", "tags": [], "default_queue_type": "quorum",
                          "unknown": 1},
             "limits": {"max-queues": 3}}  # fmt: skip
    metadata = {"description": "d", "tags": ["a", "b"], "default_queue_type": "quorum"}
    found = objects(checked({"vhosts": [vhost]}), VHOSTS)
    assert found == [Vhost("v", metadata, False, {"max-queues": 3})]


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [("3.5.9", "md5"), ("2.8.0", "md5"), ("3.6.0", "sha256"), ("4.3.6", "sha256"),
     ("", "sha256"), ("unknown", "sha256")],
)  # fmt: skip
def test_hashes_without_an_algorithm_have_that_of_the_version(version: str, algorithm: str) -> None:
    named = f"rabbit_password_hashing_{algorithm}"
    assert checked({"rabbit_version": version}).hashing_algorithm == named
    both = {"rabbit_version": "3.5.0", "rabbitmq_version": version}
    assert checked(both).hashing_algorithm == named


def test_a_document_for_one_vhost_has_no_users_and_its_objects_are_of_that_vhost() -> None:
    document = checked({**OF_3_5, "users": [1], "vhosts": 7}, "shop")
    assert [section.key for section in document.sections] == [
        "exchanges", "parameters", "policies", "queues", "bindings",
    ]  # fmt: skip
    assert objects(document, QUEUES) == [Queue("shop", "q")]
    assert document.counts == {"exchanges": 1, "policies": 1, "queues": 1}


@pytest.mark.parametrize("body", [b"", b"{}", b"\xef\xbb\xbf {\n} ", bytearray(b"{}")])
def test_an_empty_document_has_no_objects(body: bytes) -> None:
    document = checked(body)
    assert document.counts == {}
    assert [objects(document, section) for section in document.sections] == [[]] * 10


def test_unknown_keys_are_ignored_however_long() -> None:
    unknown = {"a": [{"b": "x" * 1000}] * 1000, "c": {"d": [1]}, "e": None}
    assert checked({**unknown, "queues": [{"vhost": "/", "name": "q", "f": {}}]}).counts == {
        "queues": 1
    }


@pytest.mark.parametrize(
    ("body", "line", "column", "detail"),
    [
        (b"{nope", 1, 2, "expected the name of a member"),
        (b"[]", 1, 1, "expected the { of a JSON object"),
        (b" ", 1, 2, "the document ends here"),
        (b'{"queues": [\n {"a": 1}\n  {}]}', 3, 3, "expected ',' or ']'"),
        (b'{"queues": [\n {"a" 1}]}', 2, 7, "Expecting ':' delimiter"),
        (b'{"queues": [],\n "queues": []}', 2, 2, "'queues' is named twice"),
        (b'{"a": 1, "a": []}', 1, 10, "'a' is named twice"),
        (b'{"a": 1} x', 1, 10, "the JSON object has ended before"),
        (b'{"a": NaN}', 1, 7, "NaN is no JSON"),
        (b'{"a": [1, 1e999]}', 1, 11, "the number 1e999 is too large"),
        (b'{"a": "\\ud800"}', 1, 7, "a surrogate without its pair"),
        (b'{"\xc3\xa9": "\xff"}', 1, 8, "not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, 1, 8, "nested too deep"),
    ],
)
def test_invalid_json_is_refused_with_its_line_and_column(
    body: bytes, line: int, column: int, detail: str
) -> None:
    refused = refusal(body)
    assert (refused.status, refused.value) == (
        400,
        {"error": "bad_request", "reason": "failed_to_parse_json", "line": line,
         "column": column, "detail": detail},
    )  # fmt: skip


QUEUE = {"vhost": "/", "name": "q"}
BINDING = {"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue",
           "routing_key": ""}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "element", "named", "problem"),
    [
        ("queues", {"name": "q9"}, "queue 'q9'", "has no vhost"),
        ("queues", {"vhost": "/"}, "queue", "name is missing"),
        ("queues", {**QUEUE, "name": 9}, "queue", "name is not a string"),
        ("queues", {**QUEUE, "durable": "true"}, "queue 'q'", "durable is not a boolean"),
        ("queues", {**QUEUE, "arguments": [1]}, "queue 'q'", "arguments is not an object"),
        ("queues", {**QUEUE, "arguments": None}, "queue 'q'", "arguments is not an object"),
        ("queues", "q", "queue", "is no JSON object"),
        ("exchanges", QUEUE, "exchange 'q'", "type is missing"),
        ("bindings", {**BINDING, "destination_type": "topic"}, "binding", "neither queue nor"),
        ("users", {"name": "ann"}, "user 'ann'", "tags is missing"),
        ("users", {"name": "ann", "tags": [1]}, "user 'ann'", "tags is not a list of strings"),
        ("users", {"name": "ann", "tags": "", "limits": {"a": True}}, "user 'ann'", "of integers"),
        ("users", {"name": "a", "tags": "", "password": "", "password_hash": ""}, "user 'a'",
         "both password and password_hash"),
        ("permissions", {"user": "ann", "vhost": "/"}, "permission 'ann'", "configure is missing"),
        ("global_parameters", {"name": "g"}, "global parameter 'g'", "value is missing"),
    ],
)  # fmt: skip
def test_an_object_of_the_wrong_shape_is_refused_with_its_line(
    key: str, element: object, named: str, problem: str
) -> None:
    good = [{"a": 1}] * 5000
    body = json.dumps({"unknown": good, key: [element]}, indent=0).replace("\n}", "\r\n}")
    line = body[: body.index(f'"{key}"')].count("\n") + 2
    refused = refusal(body.encode())
    assert refused.value["object"] == named
    assert refused.value["line"] == line > 15_000
    assert str(refused.reason).startswith(f"{named} in line {line}: ")
    assert problem in str(refused.reason)


@pytest.mark.parametrize("value", [{}, {"a": 1}, None, "q"])
def test_a_section_that_is_no_array_is_refused(value: object) -> None:
    refused = refusal(json.dumps({"users": [], "queues": value}, indent=1).encode())
    assert refused.reason == "queues in line 3 is no array"


def test_objects_are_read_only_after_a_complete_check() -> None:
    document = DefinitionsDocument(json.dumps({"queues": [QUEUE] * 9999}).encode())
    next(document.check())
    with pytest.raises(InvariantError):
        next(document.objects(QUEUES))
    for _ in range(2):
        for _ in document.check():
            pass
        assert document.counts == {"queues": 9999}


def test_depth_size_and_count_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deepest: Any = 0
    for number in range(DEPTH_MAX):
        deepest = {"a": deepest} if number % 2 else [deepest]
    assert objects(checked({"global_parameters": [{"name": "g", "value": deepest}]}),
                   GLOBAL_PARAMETERS)[0].value == deepest  # fmt: skip
    deeper = {"queues": [{**QUEUE, "arguments": {"a": deepest}}]}
    assert "arguments has more than 64 levels" in str(refusal(deeper).reason)
    for count in (NESTED_MAX, NESTED_MAX + 1):
        wide = {"global_parameters": [{"name": "g", "value": [[0]] * count}]}
        if count == NESTED_MAX:
            assert checked(wide).counts == {"global_parameters": 1}
        else:
            assert "or 10000 objects" in str(refusal(wide).reason)
    assert checked({str(n): [] for n in range(MEMBERS_MAX)}).counts == {}
    many = {"a": 1, **{str(n): [] for n in range(MEMBERS_MAX)}}
    assert refusal(many).value["detail"] == f"more than {MEMBERS_MAX} members"
    long = {"queues": [{**QUEUE, "name": "q" * ELEMENT_BYTES_MAX}]}
    assert "more than" in str(refusal(long).value["detail"])
    monkeypatch.setattr(documents, "OBJECTS_MAX", 2)
    assert checked({"queues": [QUEUE] * 2}).counts == {"queues": 2}
    assert refusal({"queues": [QUEUE] * 2, "bindings": [BINDING]}).reason == "more than 2 objects"
    with pytest.raises(DefinitionsError, match="more than 9 bytes"):
        DefinitionsDocument(b"{       }\n", bytes_max=9)


def test_a_user_in_a_log_line_has_no_hash() -> None:
    user = User("ann", ("t",), {}, HASH, "rabbit_password_hashing_md5", "secret")
    assert repr(user) == str(user) == "User(name='ann', tags=('t',), ***)"

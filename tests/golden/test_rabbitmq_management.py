"""The comparison with RabbitMQ's recorded management calls finds what differs (ADR 93).

The scenario is replayed against the recording itself, with and without planted differences.
"""

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.management.requests.rows import ROWS
from headrace.management.requests.table import RequestTable
from tests.outside.amqp.address import Address
from tests.outside.amqp.management import waits
from tests.outside.amqp.management.__main__ import report
from tests.outside.amqp.management.clients import Clients
from tests.outside.amqp.management.compare import compared, differences
from tests.outside.amqp.management.differences import (
    MANAGEMENT,
    NOT_BUILT,
    Explained,
    read_explained,
)
from tests.outside.amqp.management.marks import MARKS, marked
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import NODE, Answer, Line, Replay, over_http
from tests.outside.amqp.management.steps import Step, sections, steps
from tests.support.listed_differences import fits, unexplained

SCENARIO = list(steps())
STEPS = {step.id: step for step in SCENARIO if step.recorded}
OWN_NODE = "rabbit@peer"


@pytest.fixture(scope="module")
def golden() -> dict[str, Line]:
    """The recording, which tests do not change."""
    return load()


@pytest.fixture(scope="module")
def rows() -> list[Explained]:
    """The list of differences."""
    return read_explained(MANAGEMENT)


class RecordedPeer:
    """Answers the requests of the scenario as recorded, with a node's name of its own."""

    def __init__(self, golden: Mapping[str, Line]) -> None:
        self.paths: list[str] = []
        self._golden = golden
        self._requests: Iterator[Step] = iter([step for step in SCENARIO if step.method])
        self._seen: Iterator[Step] = iter([step for step in SCENARIO if step.client])

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Answer a request."""
        step = next(self._requests)
        assert method == step.method
        assert ("Authorization" in headers) == (
            step.user is not None or "Authorization" in step.headers
        )
        self.paths.append(path)
        if not step.recorded:
            prepared = {"start": {"node": OWN_NODE}, "conns.user.before": [{}], "defs.before": []}
            return Answer(200, {}, json.dumps(prepared.get(step.id)).encode())
        line = self._golden[step.id]
        text = line["text"] if "text" in line else json.dumps(_content(step, line))
        content = b"" if text == "null" else text.replace(NODE, OWN_NODE).encode()
        return Answer(line["status"], line.get("headers", {}), content)

    def play(self, name: str) -> Any:
        """Play a step of clients."""
        step = next(self._seen)
        assert name == step.client
        return self._golden[step.id]["result"] if step.recorded else None


def _content(step: Step, line: Line) -> Any:
    """Return a body of an answer; of a role's, what is recorded of it."""
    if not step.by_role:
        return line["body"]
    if "names" in line:
        return [{"name": name} for name in line["names"]]
    return {"error": line["error"], "reason": line["reason"]}


def replayed(golden: Mapping[str, Line]) -> dict[str, Line]:
    """Return the answers of a peer that answers as recorded."""
    peer = RecordedPeer(golden)

    def sleep(_: float) -> None:
        pytest.fail("a recorded answer does not satisfy its own condition")

    replay = Replay(peer.ask, peer, {"amqp_port": "5672"}, sleep)
    answers = {line["id"]: line for line in replay.play(SCENARIO)}
    assert not any("$" in path for path in peer.paths)
    return answers


def test_each_recorded_step_has_an_answer_and_no_answer_is_without(golden: dict[str, Line]) -> None:
    assert [step.id for step in SCENARIO if step.recorded] == list(golden)
    assert len(golden) == 858
    assert {step.section for step in SCENARIO} == set(sections())


def test_each_wait_capture_and_client_step_exists() -> None:
    assert {*waits.WAITS, *waits.CAPTURES} <= {step.id for step in SCENARIO}
    assert all(hasattr(Clients, step.client) for step in SCENARIO if step.client)


def test_a_replay_of_the_recording_equals_the_recording(golden: dict[str, Line]) -> None:
    assert list(differences(golden, golden, SCENARIO)) == []
    assert list(differences(golden, replayed(golden), SCENARIO)) == []


def test_a_recording_names_no_machine_and_no_path(golden: dict[str, Line]) -> None:
    text = json.dumps(golden)
    assert not re.search(r"/(home|root|tmp|var|work|usr|opt)/", text)
    assert set(re.findall(r"\w+@[\w.-]+", text)) <= {"nosuch@localhost"}


Change = Callable[[Line], object]


def changed(golden: Mapping[str, Line], call: str, change: Change) -> dict[str, Line]:
    """Return the recording with another answer to one call."""
    line = json.loads(json.dumps(golden[call]))
    change(line)
    return {**golden, call: line}


@pytest.mark.parametrize(
    ("call", "change", "field"),
    [
        ("vhost.put", lambda it: it.update(status=200), "status"),
        ("door.none", lambda it: it["headers"].pop("www-authenticate"), "www-authenticate"),
        ("b.post", lambda it: it["headers"].update(location="elsewhere"), "location"),
        ("q.get.classic", lambda it: it["headers"].pop("content-type"), "content-type"),
        ("q.get.classic", lambda it: it["body"].pop("durable"), "/durable"),
        ("q.get.classic", lambda it: it["body"].update(messages="0"), "/messages"),
        ("q.get.classic", lambda it: it["body"].update(memory="0"), "/memory"),
        ("q.get.classic", lambda it: it["body"]["arguments"].update({"x-max-length": 1}),
         "/arguments/x-max-length"),
        ("q.put.badttl", lambda it: it["body"].update(reason="a text of our own"), "/reason"),
        ("qs.sort", lambda it: it["body"].reverse(), "/order"),
        ("xs.page", lambda it: it["body"]["items"].pop(), "/items/length"),
        ("users", lambda it: it["body"].pop(0), "/length"),
        ("qs.page1", lambda it: it.update(body=[]), "/"),
        ("pol.now.first-left", lambda it: it["result"].update(count=1), "/count"),
        ("roles.goldmon.GET.queues", lambda it: it.update(names=["gold", "gold-hidden"]), "names"),
        ("roles.goldmgmt.GET.users", lambda it: it.update(error="other"), "error"),
        ("roles.goldmgmt.GET.users", lambda it: it.update(reason="other"), "reason"),
        ("roles.goldadm.GET.users", lambda it: it.update(status=403), "status"),
    ],
)  # fmt: skip
def test_a_planted_difference_is_found(
    golden: dict[str, Line], call: str, change: Change, field: str
) -> None:
    found = list(differences(golden, replayed(changed(golden, call, change)), SCENARIO))
    assert {(each.call, each.field) for each in found} == {(call, field)}


@pytest.mark.parametrize(
    ("call", "change"),
    [
        ("q.get.classic", lambda it: it["body"].update(memory=1)),
        ("q.get.classic", lambda it: it["body"].update(ours=1)),
        ("q.get.classic", lambda it: it["body"].pop("garbage_collection")),
        ("vhost.put.again", lambda it: it["headers"].pop("vary")),
        ("users", lambda it: it["body"].reverse()),
        ("overview", lambda it: it["body"].pop("erlang_version")),
    ],
)
def test_a_value_that_clients_do_not_use_is_no_difference(
    golden: dict[str, Line], call: str, change: Change
) -> None:
    assert list(differences(golden, changed(golden, call, change), SCENARIO)) == []


def test_a_call_without_an_answer_is_a_difference(golden: dict[str, Line]) -> None:
    answers = {call: line for call, line in golden.items() if call != "users"}
    (found,) = differences(golden, answers, SCENARIO)
    assert (found.call, found.field) == ("users", "answer")


def test_of_another_status_nothing_else_is_compared(golden: dict[str, Line]) -> None:
    other = changed(golden, "qs", lambda it: it.update(status=404, body={}, headers={}))
    assert len(list(compared(STEPS["qs"], golden["qs"], other["qs"]))) == 1


def test_a_difference_without_a_row_and_a_row_without_a_difference_fail(
    golden: dict[str, Line], capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(golden, "vhost.put", lambda it: it.update(status=200))
    found = list(differences(golden, other, SCENARIO))
    row = Explained("vhost.put", "status", "as planted")
    too_many = Explained("vhost.get", "*", "no such difference")
    assert report([], STEPS, []) == 0
    assert report(found, STEPS, [row]) == 0
    assert "1 explained" in capsys.readouterr().out
    assert report(found, STEPS, []) == 1
    assert report(found, STEPS, [row, too_many]) == 1
    assert "vhost.get\t*\tno such difference" in capsys.readouterr().out
    assert report(found, STEPS, [row, too_many], is_whole=False) == 0
    assert report(found, STEPS, [], "4.4.0") == 0
    assert report(found, STEPS, [], "4.3.6") == 1


def test_each_row_has_a_reason_and_names_recorded_calls(rows: list[Explained]) -> None:
    for row in rows:
        patterns = row.call.split(" | ")
        assert all(any(fits(call, pattern) for call in STEPS) for pattern in patterns), row
        assert re.fullmatch(f"{NOT_BUILT}[A-J][0-9]+", row.reason) or " " in row.reason


def test_each_call_that_is_not_served_has_a_row(
    golden: dict[str, Line], rows: list[Explained]
) -> None:
    found = list(differences(golden, {}, SCENARIO))
    assert len(found) == len(STEPS)
    left, unused = unexplained(found, [row for row in rows if row.field == "*"])
    assert unused == []
    table = RequestTable(ROWS)
    for call in {each.call for each in left if not STEPS[each.call].client}:
        path = urlsplit(STEPS[call].path).path
        is_served = path == "/" or table.find("OPTIONS", path.removeprefix("/api")) is not None
        assert is_served or golden[call]["status"] in {301, 404}, call


def test_a_broker_that_does_not_answer_differs_in_each_call(golden: dict[str, Line]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        port = bound.getsockname()[1]
        clients = Clients(Address(port))
        assert clients.play("connect_as_ann")["exception"] == "AMQPConnectionError"
        assert clients.play("open_third_channel")["exception"] == "IndexError"
        replay = Replay(over_http(f"http://127.0.0.1:{port}"), clients)
        answers = {line["id"]: line for line in replay.play([STEPS["vhost.put"], STEPS["qs"]])}
    assert [line["status"] for line in answers.values()] == [0, 0]
    found = differences(golden, answers, [STEPS["vhost.put"], STEPS["qs"]])
    assert [each.field for each in found] == ["status", "status"]


def unmarked(lines: Mapping[str, Line]) -> list[Line]:
    """Return answers as a run records them."""
    return [{key: line[key] for key in line if key not in MARKS} for line in lines.values()]


def test_a_call_that_is_recorded_again_keeps_its_marks(golden: dict[str, Line]) -> None:
    assert list(marked(unmarked(golden), [], golden)) == list(golden.values())


def test_a_new_call_has_marks_by_the_names_of_its_fields(golden: dict[str, Line]) -> None:
    (line,) = marked([{"id": "new", "body": [{"uptime": 1, "durable": True}]}], [], golden)
    assert line["volatile"] == ["/*/uptime"]
    (line,) = marked([{"id": "new", "body": {"garbage_collection": {}}}], [], golden)
    assert line["erlang"] == ["/garbage_collection"]


def test_a_field_that_differs_between_two_runs_is_volatile(golden: dict[str, Line]) -> None:
    runs = [{"a": 1, "b": [1, 2], "c": 3}, {"a": 2, "b": [1]}]
    first, second = ({"id": "new", "body": body} for body in runs)
    (line,) = marked([first], [{"new": second}], golden)
    assert line["volatile"] == ["/a", "/b"]
    assert line["erlang"] == ["/c"]

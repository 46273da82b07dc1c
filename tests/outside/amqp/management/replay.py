"""Replays the scenario against a management API; the answers, as they are recorded."""

import base64
import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from tests.outside.amqp.management.steps import Step
from tests.outside.amqp.management.waits import CAPTURES, WAITS, holds

Line = dict[str, Any]
"""An answer as it is recorded: `id`, and `status`, `headers`, `body` or `text` of a request; or
`result` of clients; or `status`, `error`, `reason` and `names` of a request of a role."""
WAIT_SECONDS_MAX = 20.0
PAUSE_SECONDS = 0.25
TEXT_CHARACTERS_MAX = 400
NODE = "NODE"
HEADERS = frozenset(
    {
        "content-type", "allow", "location", "www-authenticate", "vary", "cache-control", "etag",
        "pragma", "content-security-policy", "access-control-allow-origin",
        "access-control-allow-methods", "access-control-allow-headers", "access-control-max-age",
        "x-frame-options", "x-content-type-options", "content-disposition", "transfer-encoding",
    }
)  # fmt: skip
WITHOUT_NAMES = ("nodes", "feature", "deprec", "ext", "auth", "global")
"""How paths begin whose lists are the same for each role."""


class Answer(NamedTuple):
    """An answer of HTTP; names of headers in small letters. Status 0: there was no answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Ask(Protocol):
    """Sends a request and returns the answer."""

    def __call__(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer: ...


class Plays(Protocol):
    """Plays the steps of AMQP clients."""

    def play(self, name: str) -> Any: ...


@dataclass
class Replay:
    """A run of the scenario, and the values that it has taken from answers.

    An answer that does not satisfy its condition is asked for again, unless it is an error.
    """

    ask: Ask
    clients: Plays
    values: dict[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    wait_seconds_max: float = WAIT_SECONDS_MAX

    def play(self, scenario: Iterable[Step]) -> Iterable[Line]:
        """Yield the answer of each recorded step."""
        for step in scenario:
            line = self._client(step) if step.client else self._request(step)
            if step.recorded:
                yield line

    def _client(self, step: Step) -> Line:
        seen = json.dumps(self.clients.play(step.client), default=str)
        return {"id": step.id, "result": json.loads(self._without_node(seen))}

    def _request(self, step: Step) -> Line:
        headers = _headers(step)
        body = None if step.content is None else self._filled(step.content, str).encode()
        path = self._filled(step.path, lambda text: quote(text, safe=""))
        condition = WAITS.get(step.id)
        deadline = time.monotonic() + self.wait_seconds_max
        while True:
            answer = self.ask(step.method, path, headers, body)
            value, text = _parsed(answer.body.decode("utf-8", "replace"))
            is_final = holds(condition, value) or answer.status != HTTPStatus.OK
            if is_final or time.monotonic() > deadline:
                break
            self.sleep(PAUSE_SECONDS)
        if step.id in CAPTURES and answer.status == HTTPStatus.OK:
            name, find = CAPTURES[step.id]
            self.values[name] = find(value)
        if text is None:
            value = json.loads(self._without_node(json.dumps(value)))
        kept = {name: self._without_node(it) for name, it in answer.headers.items()}
        line = _of_role(step, answer.status, value) if step.by_role else _full(answer.status, kept)
        if text is not None:
            line["text"] = self._without_node(text)[:TEXT_CHARACTERS_MAX]
        elif not step.by_role:
            line["body"] = value
        return {"id": step.id} | line

    def _filled(self, text: str, quoted: Callable[[str], str]) -> str:
        for name, value in self.values.items():
            text = text.replace("${" + name + "}", quoted(value))
        return text

    def _without_node(self, text: str) -> str:
        """Return a text without the node's name, which differs between machines."""
        node = self.values.get("node", "")
        return text.replace(node, NODE) if node else text


def over_http(base: str) -> Ask:
    """Return what sends requests to a URL, each with a connection of its own."""
    parts = urlsplit(base)

    def ask(method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            received = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, received, answer.read())
        except (OSError, http.client.HTTPException):
            return Answer(0, {}, b"")
        finally:
            connection.close()

    return ask


def _headers(step: Step) -> dict[str, str]:
    headers = {}
    if step.user is not None:
        password = step.user if step.password is None else step.password
        encoded = base64.b64encode(f"{step.user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {encoded}"
    if step.content is not None:
        headers["Content-Type"] = step.type
    return headers | dict(step.headers)


def _parsed(content: str) -> tuple[Any, str | None]:
    """Return a body's JSON, or a text that JSON does not allow."""
    if not content:
        return None, None
    try:
        return json.loads(content), None
    except ValueError:
        return None, content


def _full(status: int, headers: Mapping[str, str]) -> Line:
    kept = {name: value for name, value in headers.items() if name in HEADERS}
    return {"status": status, "headers": kept}


def _of_role(step: Step, status: int, value: Any) -> Line:
    """Return what is recorded of a role: the status, the error, and the names that it sees."""
    fields = value if isinstance(value, dict) else {}
    line = {"status": status, "error": fields.get("error"), "reason": fields.get("reason")}
    if isinstance(value, list) and not step.path.removeprefix("/api/").startswith(WITHOUT_NAMES):
        line["names"] = sorted({_name(row) for row in value})
    return line


def _name(row: Any) -> str:
    return str(row.get("vhost") or row.get("name") or "") if isinstance(row, dict) else ""

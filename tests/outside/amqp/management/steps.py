"""The scenario: requests to a management API, and what AMQP clients do between them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

REQUESTS = Path(__file__).parent / "requests"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
ROLES = ("goldnone0", "goldmgmt", "goldpol", "goldmon", "goldadm")
"""Users with no tag, and with `management`, `policymaker`, `monitoring` and `administrator`."""


@dataclass(frozen=True)
class Step:
    """A line of `requests/`: a request, or an action of AMQP clients (`client`)."""

    section: str
    id: str = ""
    method: str = ""
    path: str = ""
    """With `${name}` where a value of an earlier answer is filled in (`waits.CAPTURES`)."""
    user: str | None = "guest"
    """The user that Basic authentication names. None: no such header."""
    password: str | None = None
    """None: the same text as the user's name."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """The body as JSON; `raw` is one that may not be JSON."""
    raw: str | None = None
    type: str = JSON
    client: str = ""
    """The name of a method of `clients.Clients`."""
    recorded: bool = True
    """Whether the answer is compared; others prepare what follows."""
    by_role: bool = False
    """Whether each user of ROLES sends this request."""
    unordered: bool = False
    """Whether lists of the answer have no promised order."""
    quirk: bool = False
    """Whether RabbitMQ's answer is one to avoid: a crash, or a term of Erlang."""
    note: str = ""

    @property
    def content(self) -> str | None:
        """The body as text."""
        if self.raw is not None:
            return self.raw
        return None if self.body is None else json.dumps(self.body)


def sections() -> list[str]:
    """Return the names of the sections, in order."""
    return [_section(path) for path in _files()]


def steps() -> Iterator[Step]:
    """Yield all steps, in order."""
    for path in _files():
        section = _section(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        parsed = [Step(section, **json.loads(line)) for line in lines]
        calls = [step for step in parsed if step.by_role]
        for step in parsed:
            if not step.by_role:
                yield step
            elif step is calls[0]:
                yield from (_as_role(call, role) for role in ROLES for call in calls)


def _as_role(call: Step, role: str) -> Step:
    name = f"roles.{role}.{call.method}.{call.path.removeprefix('/api/')}"
    return replace(call, id=name, user=role)


def _files() -> list[Path]:
    return sorted(REQUESTS.glob("*.jsonl"))


def _section(path: Path) -> str:
    return path.stem.partition("-")[2]

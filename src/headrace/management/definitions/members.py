"""The members of an object in a definitions document, with checks of their types."""

from collections.abc import Mapping
from typing import Any, TypeVar

from headrace.management.definitions.elements import Element
from headrace.management.requests.errors import ManagementError

T = TypeVar("T")
Json = Mapping[str, object]
DEPTH_MAX = 64
"""Deepest nesting of arguments and values: that of AMQP's field tables."""
NESTED_MAX = 10_000
"""Most objects and arrays, but empty ones, in arguments and values."""
_NESTING = frozenset({dict, list})


class DefinitionsError(ManagementError):
    """A refused definitions document: RabbitMQ's reason, the object and the line."""

    def __init__(self, reason: str, line: int, **more: object) -> None:
        """`more` are further members of the answer: `object`, `column`, `detail`."""
        super().__init__(400, "bad_request", reason)
        self.line = line
        self.more = more

    @property
    def value(self) -> dict[str, object]:
        """The JSON answer."""
        return {**super().value, "line": self.line, **self.more}


class Members:
    """The members of an element, with checks of their types. Raises DefinitionsError."""

    __slots__ = ("_kind", "_line", "_members", "_vhost")

    def __init__(self, kind: str, element: Element, vhost: str | None) -> None:
        """`vhost` is the vhost of all objects of a document that is imported into one."""
        self._kind, self._line, self._vhost = kind, element.line, vhost
        self._members: Json = {}
        if not isinstance(element.value, dict):
            raise self.refused("is no JSON object")
        self._members = element.value

    def vhost(self) -> str:
        """Return the object's vhost. A document of one vhost has none in its objects."""
        if self._vhost is not None:
            return self._vhost
        if "vhost" not in self._members:
            raise self.refused(
                "has no vhost: a document of one vhost is imported into a vhost, by its name"
            )
        return self.text("vhost")

    def text(self, name: str) -> str:
        """Return a string."""
        value = self._members.get(name)
        if not isinstance(value, str):
            raise self._other_type(name, "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string, or None without such a member."""
        return self.text(name) if name in self._members else None

    def flag(self, name: str, otherwise: bool) -> bool:
        """Return a boolean."""
        value = self._members.get(name, otherwise)
        if not isinstance(value, bool):
            raise self._other_type(name, "a boolean")
        return value

    def table(self, name: str) -> Json:
        """Return an object; it may be missing, and Erlang's empty list is an empty one."""
        value = self._members.get(name)
        if isinstance(value, dict):
            return self._bounded(name, value)
        if name in self._members and value != []:
            raise self._other_type(name, "an object")
        return {}

    def value(self, name: str) -> object:
        """Return a value of any type."""
        if name not in self._members:
            raise self.refused(f"{name} is missing")
        return self._bounded(name, self._members[name])

    def given(self, names: tuple[str, ...]) -> Json:
        """Return those of the members that the object has, unchecked."""
        return {name: self.value(name) for name in names if name in self._members}

    def limits(self) -> Mapping[str, int]:
        """Return the limits of a vhost or a user."""
        limits = self.table("limits")
        found = {name: value for name, value in limits.items() if type(value) is int}
        if len(found) != len(limits):
            raise self._other_type("limits", "an object of integers")
        return found

    def tags(self, among: Json) -> tuple[str, ...]:
        """Return the tags `among` these members: a list of strings, or one string with commas."""
        tags = among.get("tags")
        if isinstance(tags, str):
            return tuple(tag.strip() for tag in tags.split(",") if tag.strip())
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise self._other_type("tags", "a list of strings")
        return tuple(tags)

    def _bounded(self, name: str, value: T) -> T:
        if isinstance(value, (dict, list)) and value and _is_nested_too_much(value):
            raise self.refused(f"{name} has more than {DEPTH_MAX} levels or {NESTED_MAX} objects")
        return value

    def _other_type(self, name: str, kind: str) -> DefinitionsError:
        return self.refused(f"{name} is {'not ' + kind if name in self._members else 'missing'}")

    def refused(self, problem: str) -> DefinitionsError:
        """Return the refusal of this object."""
        name = self._members.get("name", self._members.get("user"))
        named = f"{self._kind} {name!r}" if isinstance(name, str) else self._kind
        reason = f"{named} in line {self._line}: {problem}"
        return DefinitionsError(reason, self._line, object=named)


def _is_nested_too_much(value: Any) -> bool:  # noqa: ANN401 - a value of JSON
    level, count = [value], 0
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if inner and type(inner) in _NESTING
        ]
        count += len(level)
        if not level or count > NESTED_MAX:
            break
    return bool(level)

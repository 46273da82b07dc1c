"""A definitions document: checked as a whole before anything is changed, then read by section.

    body --check--> syntax, types of members, counts       nothing has been changed yet
         --objects-> the objects of one section            in the order of the import

Objects are decoded twice and none is stored: those of 20 MB would need many times its size. Each
step takes less than 5 ms; the caller pauses between steps.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from headrace.management.definitions.elements import Body, Element, ElementReader, JsonFault
from headrace.management.definitions.members import DefinitionsError, Members
from headrace.management.definitions.objects import SECTIONS, VHOST_SECTIONS, Section
from headrace.model.invariant import InvariantError

T = TypeVar("T")
BYTES_MAX = 20_000_000
"""Longest document of the management API, as in RabbitMQ."""
OBJECTS_MAX = 1_000_000
"""Most objects of a document, those of unknown keys included."""
NOT_JSON = "failed_to_parse_json"
_VERSIONS = ("rabbitmq_version", "rabbit_version")
_SHA256, _MD5 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_md5"
_MD5_BEFORE = (3, 6)
"""The version of RabbitMQ that began to name the algorithm, with SHA-256 as its default."""


class Located(NamedTuple, Generic[T]):
    """An object of a document, with the line in which it begins."""

    line: int
    value: T


class DefinitionsDocument:
    """A document of a cluster, or of one vhost. Unknown keys are ignored, as by RabbitMQ.

    `check` runs to its end before all else. Every function raises DefinitionsError. An empty body
    is an empty document.
    """

    def __init__(self, body: Body, vhost: str | None = None, bytes_max: int = BYTES_MAX) -> None:
        """`vhost` is the vhost into which the document is imported; None: a whole document."""
        if len(body) > bytes_max:
            raise DefinitionsError(f"the document has more than {bytes_max} bytes", 1)
        self.sections = SECTIONS if vhost is None else VHOST_SECTIONS
        """The sections in the order of the import."""
        self.counts: dict[str, int] = {}
        """The number of objects by the key of their section, once the document is checked."""
        self._body = body or b"{}"
        self._vhost = vhost
        self._checked: ElementReader | None = None

    def check(self) -> Iterator[None]:
        """Check the whole document, a step for each item."""
        sections = {section.key: section for section in self.sections}
        self.counts = {}
        reader, elements = _reader(self._body), 0
        for found in _steps(reader):
            elements += len(found)
            if elements > OBJECTS_MAX:
                raise DefinitionsError(f"more than {OBJECTS_MAX} objects", found[-1].line)
            for element in found:
                section = sections.get(element.key)
                if section is not None:
                    self._object(section, element)
                    self.counts[element.key] = self.counts.get(element.key, 0) + 1
            yield
        for key in sections.keys() & reader.other_lines.keys():
            line = reader.other_lines[key]
            raise DefinitionsError(f"{key} in line {line} is no array", line, object=key)
        self._checked = reader

    def objects(self, section: Section[T]) -> Iterator[list[Located[T]]]:
        """Yield the objects of a section in steps."""
        place = self._reader.arrays.get(section.key)
        if place is None:
            return
        for found in _steps(ElementReader(self._body, (section.key, place))):
            yield [Located(each.line, self._object(section, each)) for each in found]

    @property
    def texts(self) -> Mapping[str, str]:
        """The members of the document that are strings, as `rabbitmq_version`."""
        return self._reader.texts

    @property
    def hashing_algorithm(self) -> str:
        """The algorithm of password hashes that name none, by the version of the exporter."""
        version = next((self.texts[key] for key in _VERSIONS if key in self.texts), "")
        numbers = version.split(".")[:2]
        if len(numbers) < 2 or not all(map(str.isdecimal, numbers)):
            return _SHA256
        return _MD5 if tuple(map(int, numbers)) < _MD5_BEFORE else _SHA256

    @property
    def _reader(self) -> ElementReader:
        if self._checked is None:
            raise InvariantError("the document has not been checked")
        return self._checked

    def _object(self, section: Section[T], element: Element) -> T:
        return section.read(Members(section.kind, element, self._vhost))


def _reader(body: Body) -> ElementReader:
    try:
        return ElementReader(body)
    except JsonFault as fault:
        raise _refused(fault) from None


def _steps(reader: ElementReader) -> Iterator[list[Element]]:
    try:
        while (found := reader.step()) is not None:
            yield found
    except JsonFault as fault:
        raise _refused(fault) from None


def _refused(fault: JsonFault) -> DefinitionsError:
    return DefinitionsError(NOT_JSON, fault.line, column=fault.column, detail=fault.text)

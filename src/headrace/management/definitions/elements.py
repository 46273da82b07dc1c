"""A JSON object read in steps: one element of its arrays at a time, with line numbers.

    body --step--> elements of the arrays that are members of the object
              '--> arrays (where each begins), texts (members that are strings)

A step reads some 64 KiB, so that a caller on the event loop can pause between steps. The text is
decoded in windows, and an element that does not end in its window is decoded again at the start of
the next one: neither the text nor the values of the whole document are in memory. RFC 8259, but for
lone surrogates and numbers beyond doubles, which are refused as Erlang's decoders do.
"""

import codecs
import json
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable

Body = bytes | bytearray | memoryview
STEP_CHARACTERS = 64 * 1024
"""Length of the text that a step reads at most, but for the end of its last element."""
_ELEMENT_COST = 64
"""The fixed time for each element, as that of so many characters."""
ELEMENT_BYTES_MAX = 128 * 1024
"""Most bytes of an element or of a member that is no array: it is decoded at once."""
MEMBERS_MAX = 1000
"""Most members of a document; RabbitMQ's have some 20."""
_BOM = codecs.BOM_UTF8
_CUT_CHARACTERS = 12
"""A token that the end of a window cuts is reported at most so far before the end, but for
strings: an escaped surrogate pair has 12 characters."""
_NUMBER_TAIL = 3
"""A cut number may be valid without its end: `1e+5` as `1`, three characters before the cut."""
_INCOMPLETE = object()
_no_space = re.compile(r"[^ \t\n\r]").search
_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*").match


class Place(NamedTuple):
    """A position in a document."""

    offset: int
    """In bytes."""
    line: int
    column: int
    """Of characters before it in its line."""


class Element(NamedTuple):
    """An element of an array that is a member of the document."""

    key: str
    """The name of the member."""
    value: object
    line: int
    """The line in which it begins, from 1."""


class JsonFault(HeadraceError):
    """A document that is not the JSON that it should be."""

    def __init__(self, text: str, line: int, column: int) -> None:
        """`line` and `column` count from 1, the column in characters."""
        super().__init__(f"line {line}, column {column}: {text}")
        self.text = text
        self.line = line
        self.column = column


class ElementReader:
    """Reads a document, or one array of it again. Raises JsonFault."""

    def __init__(
        self,
        body: Body,
        array: tuple[str, Place] | None = None,
        window: int = ELEMENT_BYTES_MAX,
    ) -> None:
        """`array` is an item of `arrays` of an earlier reader: only that array is read."""
        self.arrays: dict[str, Place] = {}
        """The place behind the bracket of each array that was read, by key."""
        self.texts: dict[str, str] = {}
        """The members that are strings."""
        self.other_lines: dict[str, int] = {}
        """The lines of all members that are no arrays, by key."""
        self._body = memoryview(body)
        self._window = window
        self._one_array = array is not None
        bom = len(_BOM) if self._body[: len(_BOM)] == _BOM else 0
        self._key, begin = array or ("", Place(bom, 1, 0))
        self._base, self._line, column = begin
        self._text, self._at, self._more, self._left = "", 0, True, 0
        self._line_start = -column
        self._measured = 0
        self._decode = json.JSONDecoder(
            parse_constant=_refused_constant, parse_float=_finite
        ).raw_decode
        self._next: Callable[[list[Element]], None] | None = (
            self._first_element if self._one_array else self._begin
        )
        self._fill()

    def step(self) -> list[Element] | None:
        """Read on and return the elements that were found; None: the end was reached before."""
        if self._next is None:
            return None
        found: list[Element] = []
        self._left = STEP_CHARACTERS
        while self._next is not None and self._left > 0:
            self._next(found)
        return found

    # Each of the following reads one token, and names what follows. With "" for a character it
    # returns without a change: the window has been filled again.

    def _begin(self, _: list[Element]) -> None:
        if self._token("{", "expected the { of a JSON object"):
            self._next = self._first_key

    def _first_key(self, found: list[Element]) -> None:
        character = self._character()
        if character == "}":
            self._after_member(found)
        elif character:
            self._next = self._member_key

    def _member_key(self, _: list[Element]) -> None:
        character = self._character()
        if not character:
            return
        if character != '"':
            raise self._fault("expected the name of a member", self._at)
        at, key = self._at, self._value()
        if isinstance(key, str):
            if key in self.arrays or key in self.other_lines:
                raise self._fault(f"{key!r} is named twice", at)
            if len(self.arrays) + len(self.other_lines) == MEMBERS_MAX:
                raise self._fault(f"more than {MEMBERS_MAX} members", at)
            self._key, self._next = key, self._colon

    def _colon(self, _: list[Element]) -> None:
        if self._token(":", "expected ':' and a value"):
            self._next = self._member

    def _member(self, _: list[Element]) -> None:
        character = self._character()
        if not character:
            return
        if character == "[":
            self._at += 1
            self.arrays[self._key] = self._place()
            self._next = self._first_element
            return
        line = self._line
        value = self._value()
        if value is not _INCOMPLETE:
            self.other_lines[self._key] = line
            if isinstance(value, str):
                self.texts[self._key] = value
            self._next = self._after_member

    def _first_element(self, found: list[Element]) -> None:
        character = self._character()
        if character == "]":
            self._after_element(found)
        elif character:
            self._next = self._elements

    def _elements(self, found: list[Element]) -> None:
        """Read the elements that end in this window, until the step has read enough."""
        if not self._character():
            return
        self._next = self._after_element
        while True:
            line = self._line
            value = self._value()
            if value is _INCOMPLETE:
                self._next = self._elements
                return
            found.append(Element(self._key, value, line))
            self._left -= _ELEMENT_COST
            comma = _comma(self._text, self._at)
            if comma is None or comma.end() == len(self._text):
                return
            self._move(comma.end())
            if self._left <= 0:
                self._next = self._elements
                return

    def _after_element(self, _: list[Element]) -> None:
        character = self._token(",]", "expected ',' or ']'")
        if character == ",":
            self._next = self._elements
        elif character == "]":
            self._next = None if self._one_array else self._after_member

    def _after_member(self, _: list[Element]) -> None:
        character = self._token(",}", "expected ',' or '}'")
        if character == ",":
            self._next = self._member_key
        elif character == "}":
            self._next = self._rest

    def _rest(self, _: list[Element]) -> None:
        self._skip_spaces()
        if self._at < len(self._text):
            raise self._fault("the JSON object has ended before", self._at)
        if self._more:
            self._fill()
        else:
            self._next = None

    def _token(self, allowed: str, expected: str) -> str:
        """Read one of the allowed characters, or return "": the window has been filled again."""
        character = self._character()
        if character not in allowed:
            raise self._fault(expected, self._at)
        self._at += len(character)
        return character

    def _character(self) -> str:
        """Return the character behind spaces, or "" after the window has been filled again."""
        self._skip_spaces()
        if self._at < len(self._text):
            return self._text[self._at]
        if not self._more:
            raise self._fault("the document ends here", self._at)
        self._fill()
        return ""

    def _skip_spaces(self) -> None:
        found = _no_space(self._text, self._at)
        self._move(len(self._text) if found is None else found.start())

    def _value(self) -> object:
        """Read a value, or return _INCOMPLETE after the window has been filled again."""
        text, at = self._text, self._at
        try:
            value, end = self._decode(text, at)
        except json.JSONDecodeError as error:
            string = error.msg.startswith("Unterminated string")
            if self._more and (string or error.pos >= len(text) - _CUT_CHARACTERS):
                return self._incomplete()
            raise self._fault(error.msg, error.pos) from None
        except ValueError as error:
            raise self._fault(str(error), at) from None
        except RecursionError:
            raise self._fault("nested too deep", at) from None
        if self._more and end >= len(text) - _NUMBER_TAIL:
            return self._incomplete()
        if text.find("\\u", at, end) >= 0 and not _is_unicode(value):
            raise self._fault("a surrogate without its pair", at)
        self._move(end)
        return value

    def _incomplete(self) -> object:
        if self._at == 0:
            raise self._fault(f"a value has more than {self._window} bytes", 0)
        self._fill()
        return _INCOMPLETE

    def _move(self, at: int) -> None:
        newlines = self._text.count("\n", self._at, at)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", self._at, at) + 1
        self._left -= at - self._at
        self._at = at

    def _fill(self) -> None:
        """Decode the next window, which begins at the character to be read."""
        self._base, _, column = self._place()
        self._line_start, self._measured, self._at = -column, 0, 0
        window = self._body[self._base : self._base + self._window]
        self._more = self._base + len(window) < len(self._body)
        try:
            self._text, _ = codecs.utf_8_decode(window, "strict", not self._more)
        except UnicodeDecodeError as error:
            self._text = str(window[: error.start], "utf-8")
            raise self._fault("not UTF-8", len(self._text)) from None

    def _place(self) -> Place:
        """Return the place of the character to be read; `_base` is then of `_measured`."""
        passed = self._text[self._measured : self._at]
        self._base += len(passed) if passed.isascii() else len(passed.encode())
        self._measured = self._at
        return Place(self._base, self._line, self._at - self._line_start)

    def _fault(self, text: str, at: int) -> JsonFault:
        self._move(at)
        return JsonFault(text, self._line, self._place().column + 1)


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _refused_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number

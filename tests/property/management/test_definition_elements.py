"""Documents are read as `json` reads them, whatever their layout and wherever a window ends."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.management.definitions.elements import Element, ElementReader, JsonFault
from tests.support.examples import examples

KEYS = st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
SPACES = st.sampled_from(["", " ", "\n", "\r\n\t ", " \n\n"])
MEMBERS = st.dictionaries(KEYS, st.lists(VALUES, max_size=6) | VALUES, max_size=5)
CUT_MARGIN = 12


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, list[Element], int]:
    """Draw a document, the elements of its arrays, and the size of the longest value in bytes."""
    text, found, longest = draw(SPACES) + "{", [], 0
    ascii_only = draw(st.booleans())
    for count, (key, value) in enumerate(draw(MEMBERS).items()):
        text += "," * (count > 0) + draw(SPACES) + json.dumps(key) + draw(SPACES) + ":"
        longest = max(longest, len(json.dumps(key)))
        array = isinstance(value, list)
        text += draw(SPACES) + "[" * array + draw(SPACES)
        for number, each in enumerate(value if isinstance(value, list) else [value]):
            text += "," * (number > 0) + draw(SPACES)
            if array:
                found.append(Element(key, each, text.count("\n") + 1))
            indent = draw(st.sampled_from([None, 1]))
            written = json.dumps(each, ensure_ascii=ascii_only, indent=indent)
            longest = max(longest, len(written.encode()))
            text += written + draw(SPACES)
        text += "]" * array + draw(SPACES)
    return text + "}" + draw(SPACES), found, longest


def read(reader: ElementReader) -> list[Element]:
    """Return all elements."""
    return [each for found in iter(reader.step, None) for each in found]


@settings(max_examples=examples(300))
@given(layouts(), st.integers(0, 40))
def test_elements_and_lines_are_those_of_the_text(
    layout: tuple[str, list[Element], int], margin: int
) -> None:
    text, expected, longest = layout
    body, window = text.encode(), longest + CUT_MARGIN + margin
    reader = ElementReader(body, window=window)
    assert same(read(reader), expected)
    for array in reader.arrays.items():
        again = read(ElementReader(body, array, window))
        assert same(again, [each for each in expected if each.key == array[0]])
    strings = {key: it for key, it in json.loads(text).items() if isinstance(it, str)}
    assert reader.texts == strings


@pytest.mark.parametrize(
    ("least", "text"),
    [
        (1, "{     }   "),
        (
            19,
            '{ "a"  : [  ] , "b" : [ 1  , {"c": "\\u00e9"} ,"x" , [ ] ] , "d": { } , "e" : "t" } ',
        ),
        (
            19,
            '{"ä" : [true,\n123 ,-1.2e-7, "ü\\\\", "\\ud83d\\ude00" ] ,\n\n "f": 10 ,"g":[\n2\n]}',
        ),
    ],
)
def test_a_window_may_end_anywhere(least: int, text: str) -> None:
    body = text.encode()
    whole = ElementReader(body)
    expected, fault = read(whole), fault_of(bytearray(body + b"x"), len(body) + 1)
    for window in range(least, len(body) + 2):
        reader = ElementReader(body, window=window)
        assert read(reader) == expected
        assert (reader.arrays, reader.other_lines) == (whole.arrays, whole.other_lines)
        assert str(fault_of(bytearray(body + b"x"), window)) == str(fault)
    assert [each.value for each in expected] == [
        value for found in json.loads(text).values() if isinstance(found, list) for value in found
    ]


def same(found: Iterable[Element], expected: Iterable[Element]) -> bool:
    """Compare with types: 1, 1.0 and True are three values."""
    return repr(list(found)) == repr(list(expected))


@settings(max_examples=examples(300))
@given(layouts(), st.data())
def test_a_changed_document_is_refused_exactly_if_it_is_no_json(
    layout: tuple[str, list[Element], int], data: st.DataObject
) -> None:
    text, _, longest = layout
    body = bytearray(text.encode())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    fault = fault_of(body, longest + CUT_MARGIN + 2)
    assume(fault is None or "more than" not in fault.text)
    assert (fault is None) == is_object(bytes(body)), fault
    if fault is not None:
        lines = bytes(body).split(b"\n")
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.column <= len(lines[fault.line - 1].decode("utf-8", "replace")) + 1


def fault_of(body: bytearray, window: int) -> JsonFault | None:
    """Return why a document is refused."""
    try:
        read(ElementReader(body, window=window))
    except JsonFault as fault:
        return fault
    return None


def is_object(body: bytes) -> bool:
    """Return whether RFC 8259 allows the document, and no member is named twice."""
    try:
        pairs = json.loads(body.decode(), object_pairs_hook=list, parse_constant=int)
        names = [name for name, _ in pairs] if body.lstrip()[:1] == b"{" else [0, 0]
        json.dumps(pairs, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        return False
    return len(names) == len(set(names))


def test_steps_are_short_and_continue_within_an_array() -> None:
    body = b'{"a": [' + b",".join(b"%d" % n for n in range(20_000)) + b"]}"
    steps: list[Any] = list(iter(ElementReader(body).step, None))
    assert max(map(len, steps)) < 1000
    assert [each.value for found in steps for each in found] == list(range(20_000))

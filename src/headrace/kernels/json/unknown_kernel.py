"""The JSON kernel's counts of keys that the schema does not declare, by name.

The table has UNKNOWN_NAMES entries; keys of further names are in the total only. A record whose
rows lack memory is decoded again, so what a record adds is apart from the counts until another
record has the name.

    entry   node of the STRUCT + 1 (0: free) | size of the name in bytes | bytes of the name
            | count of earlier records | record that had it last, by its serial number
            | count of that record
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.layout import NAME_WORDS, UNKNOWN_NAMES, UNKNOWN_WORDS, Head, Name
from headrace.kernels.json.memory_kernel import compiled, load_64

UNKNOWN, FIRST_SERIAL = int(Head.UNKNOWN), int(Head.FIRST_SERIAL)
NAMES, EXPECTED = int(Head.UNKNOWN_NAMES), int(Head.UNKNOWN_EXPECTED)
NODE, SIZE, BYTES = int(Name.NODE), int(Name.SIZE), int(Name.BYTES)
COUNT, RECORD, ADDED = int(Name.COUNT), int(Name.RECORD), int(Name.ADDED)


@compiled
def _word(out, at, size, number):
    """Return eight bytes of a name, zeros after its end."""
    left = size - 8 * number
    if left <= 0:
        return np.int64(0)
    word = load_64(out, at + 8 * number)
    if left < 8:
        word &= (np.int64(1) << (8 * left)) - 1
    return word


@compiled
def _is(work, place, out, at, size, node):
    """Return whether the entry at `place` is the one of this name."""
    if work[place + NODE] != node + 1 or work[place + SIZE] != size:
        return False
    number = 0
    while number < NAME_WORDS and 8 * number < size:
        if work[place + BYTES + number] != _word(out, at, size, number):
            return False
        number += 1
    return True


@compiled
def _search(work, out, at, size, node):
    """Return the place of a name's entry, which is made if need be; -1 if the table is full."""
    for number in range(UNKNOWN_NAMES):
        place = work[NAMES] + number * UNKNOWN_WORDS
        if work[place + NODE] == 0:
            work[place + NODE], work[place + SIZE] = node + 1, size
            for word in range(NAME_WORDS):
                work[place + BYTES + word] = _word(out, at, size, word)
            return place
        if _is(work, place, out, at, size, node):
            return place
    return np.int64(-1)


@compiled
def note_unknown(work, out, at, size, node):
    """Count a key of the STRUCT `node` that the schema does not declare; its name is at `at`.

    A producer's order of keys seldom changes: the entry after that of the key before is expected.
    """
    work[UNKNOWN] += 1
    place = work[EXPECTED]
    if not _is(work, place, out, at, size, node):
        place = _search(work, out, at, size, node)
    if place >= 0:
        if work[place + RECORD] != work[FIRST_SERIAL]:
            work[place + COUNT] += work[place + ADDED]
            work[place + RECORD], work[place + ADDED] = work[FIRST_SERIAL], 0
        work[place + ADDED] += 1
        work[EXPECTED] = place + UNKNOWN_WORDS

"""The JSON kernel's counts of keys that the schema does not declare, by name.

A record's keys are pending until the record ends, because one whose rows lack memory is decoded
again. The table has UNKNOWN_NAMES entries; keys of further names are in the total only.

    entry   node of the STRUCT + 1 (0: free) | size of the name in bytes | count | bytes of the name
"""

# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# Types here are numba's, inferred from the arrays handed in; Python annotations would say nothing.

import numpy as np

from headrace.kernels.json.layout import (
    NAME_WORDS,
    UNKNOWN_NAMES,
    UNKNOWN_PENDING,
    UNKNOWN_WORDS,
    Head,
)
from headrace.kernels.json.memory_kernel import compiled, load_64

UNKNOWN, PENDING = int(Head.UNKNOWN), int(Head.PENDING)
NAMES, PENDING_AT = int(Head.UNKNOWN_NAMES), int(Head.UNKNOWN_PENDING)


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
def _entry(work, out, at, size, node):
    """Return the place of a name's entry, which is made if need be; -1 if the table is full."""
    for number in range(UNKNOWN_NAMES):
        place = work[NAMES] + number * UNKNOWN_WORDS
        if work[place] == 0:
            work[place], work[place + 1] = node + 1, size
            for word in range(NAME_WORDS):
                work[place + 3 + word] = _word(out, at, size, word)
            return place
        if work[place] == node + 1 and work[place + 1] == size:
            word = 0
            while word < NAME_WORDS and work[place + 3 + word] == _word(out, at, size, word):
                word += 1
            if word == NAME_WORDS:
                return place
    return np.int64(-1)


@compiled
def note_unknown(work, out, at, size, node):
    """Note a key of the STRUCT `node` that the schema does not declare; its name is at `at`."""
    work[UNKNOWN] += 1
    if work[PENDING] < UNKNOWN_PENDING:
        place = _entry(work, out, at, size, node)
        if place >= 0:
            work[work[PENDING_AT] + work[PENDING]] = place
            work[PENDING] += 1


@compiled
def count_unknown(work):
    """Count the keys of a record that has ended."""
    for number in range(work[PENDING]):
        work[work[work[PENDING_AT] + number] + 2] += 1
    work[PENDING] = 0

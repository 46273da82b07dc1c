"""Where the JSON kernel finds its schema program and its state.

`program` has a row for each node: the record (row 0), each field, each element, the key and the
value of each MAP. A node's elements are in *slots*. Nodes of one *space* share their slots: the
record with all its fields and their STRUCTs; below each ARRAY or MAP a further space begins.

`work` is one array of int64:

    header | frames | open containers of a skipped value | marks | saved marks | stamps
           | followers | firsts | fills | table of MAP keys | undeclared names

    marks      for each space the number of slots in use, then for each STRING the bytes in use;
               saved before a record, restored if it is refused
    stamps     for each node the serial number of the object in which it was read last
    followers  for each node the node whose key followed last time: the one to expect
    firsts     for each STRUCT the node whose key was the first one last time
    fills      for each STRUCT the nodes that are null when it is
"""

from enum import IntEnum


class Col(IntEnum):
    """Columns of `program`."""

    KIND = 0
    NULLABLE = 1
    CHILD = 2  # The first child; the others follow it.
    CHILDREN = 3
    SPACE = 4
    VALID = 5  # Place of the validity bytes in `out`.
    DATA = 6  # Place of the values, or of the ends of a STRING, BINARY, ARRAY or MAP.
    SHIFT = 7  # A value has 1 << SHIFT bytes.
    BYTES = 8  # Place of the bytes of a STRING or BINARY.
    MARK = 9  # Of a STRING or BINARY: its mark. Of an ARRAY or MAP: the space below it.
    LIMIT = 10  # Of a STRING or BINARY: place in `out` where the memory for its bytes ends.
    SLOTS = 11  # Number of slots that its space has memory for.
    PATTERN = 12  # Place in `names` of `"name":`.
    PATTERN_SIZE = 13  # 0 if the name has a character that JSON escapes.
    NAME = 14
    NAME_SIZE = 15
    UNIT = 16
    PRECISION = 17  # Of an integer: its bits.
    SCALE = 18
    FILL = 19  # Place of its fills, relative to the section.
    FILLS = 20


class Head(IntEnum):
    """Places in the header of `work`."""

    AT = 0  # After a refusal: the byte, and the node.
    NODE = 1
    SERIAL = 2
    SCRATCH = 3  # Place in `out` for a string that is not stored.
    MARKS = 4  # Places of the sections.
    MARK_COUNT = 5
    SAVED = 6
    STAMPS = 7
    FOLLOWERS = 8
    FILLS = 9
    TABLE = 10
    TABLE_MASK = 11  # Number of entries - 1, a power of two; an entry has two words.
    FIRST_SERIAL = 12  # The first serial number of the current record.
    UNKNOWN = 13  # Number of keys that the schema does not declare.
    SEED = 14  # Random, for the table of MAP keys.
    FIRSTS = 15  # Place of a section, see `followers`.
    STOPPED = 16  # The record that the output had no memory for; -1 if it had for all.
    FULL = 17  # SLOTS_FULL or TEXT_FULL, of NODE.
    UNKNOWN_NAMES = 18  # Place of a section, see `unknown_kernel`, and of its expected entry.
    UNKNOWN_EXPECTED = 19


class Frame(IntEnum):
    """Words of a frame: an open object or array."""

    NODE = 0
    SLOT = 1
    CLOSING = 2  # The character that ends it.
    SERIAL = 3
    SEEN = 4  # Declared keys read so far.
    GUESS = 5  # The node whose key is expected next.
    LAST = 6  # The node whose key was read last; -1 at first.


class Name(IntEnum):
    """Words of an entry for an undeclared name."""

    NODE = 0  # The STRUCT that has the key, + 1; 0: the entry is free.
    SIZE = 1
    COUNT = 2  # In earlier records.
    RECORD = 3  # The first serial number of the record that had it last.
    ADDED = 4  # In that record.
    BYTES = 5


SLACK = 64
"""Bytes after the input and after each output buffer that may be read or overwritten."""
SLOTS_FULL = 64
TEXT_FULL = 65
"""Not faults of a record: its elements, or its texts, have no memory left in the output."""
NO_LIMIT = 1 << 62
"""Limit of a text in the scratch space, which has room for any."""
FRAMES_AT = 32
FRAME_WORDS = 8
FRAMES_MAX = 80
"""The record and the nested types of a schema, which the DDL bounds."""
UNKNOWN_NAMES = 32
"""Names of undeclared keys that are counted each; keys of other names count in all only."""
NAME_WORDS = 8
"""Words of a name, of eight bytes; longer names with equal beginnings and sizes are one."""
UNKNOWN_WORDS = 5 + NAME_WORDS
SKIPPED_AT = FRAMES_AT + FRAME_WORDS * FRAMES_MAX
"""Kinds of open containers, up to DEPTH_MAX."""

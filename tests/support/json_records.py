"""Random schemas, records of them, and damaged records, from one random generator."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from tests.support.type_table import CASES

if TYPE_CHECKING:
    from random import Random

SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,2)",
    "DECIMAL(38,10)", "DECIMAL(20,0)", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
)  # fmt: skip
COMMENTS = {
    "TIMESTAMP": ("", "epoch s", "epoch ms", "epoch us", "epoch ns", "zone UTC"),
    "DATE": ("", "epoch days"),
}
EPOCH_DIGITS = {"epoch s": 11, "epoch ms": 14, "epoch us": 17, "epoch ns": 18, "epoch days": 6}
ZONES = ("Z", "Z", "Z", "+02:00", "-0330", "+14", "-18:00", "\\u002b02:00")
NAMES = ("id", "a", "amount", "a longer name", "zeit€", 'qu"ote', "back\\slash", "name", "x")
TOKENS = tuple(case.json.encode() for case in CASES)
PIECES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\0", b"\xff", b"\xc3\xa9",
    b"-", b"0", b"1e5", b"e", b".", b"null", b"true", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud800",
    b"\\n", b"\xef\xbb\xbf", b"\xe2\x82", b"9" * 20, b"\xf0\x9f\x98\x80", b"0" * 40,
)  # fmt: skip


class Schema:
    """A random schema: its DDL and records that fit it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._odd = random.choice((0.0, 0.0, 0.002, 0.02))
        """How often a value is null or does not fit its type."""
        self.fields = self._fields(2)
        self.ddl = ", ".join(self._ddl(field, " ") for field in self.fields)

    def _fields(self, depth: int) -> list[tuple[str, Any, str]]:
        names = self._random.sample(NAMES, self._random.randint(1, 6))
        fields = []
        for name in names:
            kind = self._type(depth)
            suffix = " NOT NULL" if self._random.random() < 0.2 else ""
            comments = COMMENTS.get(kind, ("",)) if isinstance(kind, str) else ("",)
            if comment := self._random.choice(comments):
                suffix += f" COMMENT '{comment}'"
            fields.append((name, kind, suffix))
        return fields

    def _type(self, depth: int) -> Any:
        choice = self._random.random()
        if depth == 0 or choice < 0.7:
            return self._random.choice(SCALARS)
        if choice < 0.8:
            return ("ARRAY", self._type(depth - 1))
        return ("MAP", self._type(depth - 1)) if choice < 0.87 else self._fields(depth - 1)

    def _ddl(self, field: tuple[str, Any, str], between: str) -> str:
        name, kind, suffix = field
        return f"`{name}`{between}{self._ddl_type(kind)}{suffix}"

    def _ddl_type(self, kind: Any) -> str:
        if isinstance(kind, str):
            return kind
        if isinstance(kind, list):
            return f"STRUCT<{', '.join(self._ddl(field, ': ') for field in kind)}>"
        inner = self._ddl_type(kind[1])
        return f"ARRAY<{inner}>" if kind[0] == "ARRAY" else f"MAP<STRING, {inner}>"

    def record(self) -> bytes:
        """Return a record that mostly fits the schema."""
        return self._object(self.fields)

    def _object(self, fields: list[tuple[str, Any, str]]) -> bytes:
        random = self._random
        members = [
            self._key(name) + b":" + self._space() + self._value(kind, suffix)
            for name, kind, suffix in fields
            if random.random() < 0.97 or ("NOT NULL" in suffix and random.random() > self._odd)
        ]
        if random.random() < 0.1:
            random.shuffle(members)
        if random.random() < 0.1:
            members.insert(random.randint(0, len(members)), b'"other":' + random.choice(TOKENS))
        if random.random() < self._odd and members:
            members.append(random.choice(members))
        comma = b"," + self._space()
        return b"{" + self._space() + comma.join(members) + self._space() + b"}"

    def _key(self, name: str) -> bytes:
        return json.dumps(name, ensure_ascii=self._random.random() < 0.3).encode()

    def _space(self) -> bytes:
        return self._random.choice((b" ", b"\n\t", b"\r\n")) if self._random.random() < 0.1 else b""

    def _value(self, kind: Any, suffix: str = "") -> bytes:
        random = self._random
        if (random.random() < 0.03 and "NOT NULL" not in suffix) or random.random() < self._odd:
            return b"null"
        if random.random() < self._odd:
            return random.choice(TOKENS)
        if isinstance(kind, list):
            return self._object(kind)
        if isinstance(kind, tuple):
            count = random.choice((0, 1, 2, 3, 20))
            if kind[0] == "ARRAY":
                return b"[" + b",".join(self._value(kind[1]) for _ in range(count)) + b"]"
            keys = [self._key(random.choice((self.text(), str(at)))) for at in range(count)]
            return b"{" + b",".join(key + b":" + self._value(kind[1]) for key in keys) + b"}"
        return self._scalar(kind, suffix)

    def text(self) -> str:
        """Return a string, at times long or beyond ASCII."""
        random = self._random
        alphabet = random.choice(("abc xyz", 'aé€😀\x7f"\\/', "a\n\0\x1f"))
        size = random.choice((0, 1, 5, 15, 31, 32, 33, 63, 64, 100))
        return "".join(random.choice(alphabet) for _ in range(size))

    def _scalar(self, kind: str, suffix: str) -> bytes:
        random = self._random
        match kind:
            case "BOOLEAN":
                return random.choice((b"true", b"false"))
            case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
                bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[kind]
                bound = 1 << (bits - 1)
                edge = random.choice((-bound - 1, -bound, bound - 1, bound))
                is_edge = random.random() < 2 * self._odd
                return b"%d" % (edge if is_edge else random.randrange(-bound, bound))
            case "FLOAT" | "DOUBLE":
                return random_number(random)
            case "STRING":
                return json.dumps(self.text(), ensure_ascii=random.random() < 0.3).encode()
            case "BINARY":
                return random.choice((b'"aGk="', b'""', b'"\\/+\\u002b8="', b'"aGkh"', b'"aA=="'))
        is_odd = random.random() < self._odd
        if "epoch" in suffix:
            digits = 19 if is_odd else EPOCH_DIGITS[suffix.split("'")[1]]
            fraction = b".%d" % random.randrange(10**9) if "days" not in suffix else b""
            whole = b"%d" % random.randrange(-(10**5), 10**digits)
            return whole + fraction if random.random() < 0.3 else whole
        if kind.startswith("DECIMAL"):
            precision, scale = (38, 0) if is_odd else map(int, kind[8:-1].split(","))
            return random_decimal(random, precision, scale)
        return random_time(random, kind, suffix, is_odd)


def random_number(random: Random) -> bytes:
    """Return a number: a double's shortest text, or digits at random."""
    choice = random.random()
    if choice < 0.5:
        bits = random.getrandbits(64)
        number = struct.unpack("<d", struct.pack("<Q", bits))[0]
        return repr(number).replace("inf", "Infinity").replace("nan", "NaN").encode()
    if choice < 0.8:
        return repr(
            random.choice((random.random(), random.gauss(0, 1e3), random.random() * 1e-6))
        ).encode()
    digits = "".join(
        random.choice("0123456789") for _ in range(random.choice((1, 5, 17, 19, 20, 25)))
    )
    sign, whole = random.choice(("", "-")), digits.lstrip("0") or "0"
    fraction = "." + digits[::-1] if random.random() < 0.6 else ""
    power = random.choice((0, 3, 22, 23, 300, 308, 330))
    exponent = f"{random.choice('eE')}{random.choice(('', '+', '-'))}{power}"
    return (sign + whole + fraction + (exponent if random.random() < 0.5 else "")).encode()


def random_decimal(random: Random, precision: int, scale: int) -> bytes:
    """Return a decimal number that fits, at times in quotes or with an exponent."""
    unscaled = str(random.randrange(10 ** random.randint(1, precision))).zfill(scale + 1)
    whole, fraction = unscaled[: len(unscaled) - scale], unscaled[len(unscaled) - scale :]
    text = f"{whole}.{fraction}" if fraction else whole
    form = random.randrange(5)
    if form == 0:
        text = f"{unscaled.lstrip('0') or '0'}{random.choice('eE')}{-scale}"
    elif form == 1:
        text = f"0.{unscaled}e+{len(unscaled) - scale}"
    elif form == 2 and fraction:
        text += "00"
    text = random.choice(("", "-")) + text
    return f'"{text}"'.encode() if random.random() < 0.3 else text.encode()


def random_time(random: Random, kind: str, suffix: str, is_odd: bool) -> bytes:
    """Return a date or time as text."""
    year = random.choice((1, 1600, 1900, 1969, 1970, 2000, 2024, 2026, 2100, 9999))
    text = f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 31 if is_odd else 28):02}"
    if kind == "DATE":
        return f'"{text}"'.encode()
    text += f"{random.choice('TTT ')}{random.randint(0, 23):02}:{random.randint(0, 59):02}"
    if random.random() < 0.9:
        text += f":{random.randint(0, 59 + is_odd):02}"
        if random.random() < 0.7:
            text += f".{random.randrange(10 ** random.choice((1, 3, 6, 9)))}"
    zones = ("+18:01", "-00:60", "+02:0", "") if is_odd else ZONES
    zoned = kind == "TIMESTAMP" and ("zone" not in suffix or random.random() < 0.5)
    return f'"{text}{random.choice(zones) if zoned else ""}"'.encode()


def damaged(random: Random, record: bytes, other: bytes) -> bytes:
    """Return a record with one to three faults."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randint(0, len(record))
        until = min(at + random.choice((0, 1, 1, 2, 8)), len(record))
        match random.randrange(7):
            case 0:
                record = record[:at] + random.choice(PIECES) + record[until:]
            case 1:
                record = record[:at] + record[until:]
            case 2:
                record = record[:at]
            case 3:
                record = record[:at] + bytes([random.randrange(256)]) + record[at + 1 :]
            case 4:
                record = record[:at] + other[random.randint(0, len(other)) :]
            case 5:
                record = record[:at] + record[at:until] * 2 + record[until:]
            case 6:
                record = record[:at] + random.choice(TOKENS) + record[until:]
    return record

"""From a captured log to what the demo ships: `python -m … RAW_LOG OUT_DIRECTORY`.

* Addresses become addresses of the documentation ranges (RFC 5737), the same one for the same
  client throughout; the table that says which is drawn anew and not kept.
* A known number of lines is damaged, in the ways logs get damaged. `manifest.json` beside the log
  says which lines, how, and what the sums are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import random
import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NETWORKS = ("192.0.2", "198.51.100", "203.0.113")
DAMAGED = 137


def main() -> None:
    """Read the command line, write `access.log.xz` and `manifest.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=137)
    args = parser.parse_args()
    lines = _anonymise(args.raw.read_bytes().splitlines())
    times = [float(line.rsplit(b" ", 2)[1]) for line in lines]
    kinds = _damage(lines, random.Random(args.seed))
    content = b"".join(line + b"\n" for line in lines)
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    (args.out / "access.log.xz").write_bytes(packed)
    manifest = {
        "lines": len(lines),
        "damaged": len(kinds),
        "damaged_by_kind": dict(sorted(Counter(kinds.values()).items())),
        "damaged_lines": sorted(kinds),
        "first_event_time": min(times),
        "last_event_time": max(times),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def _anonymise(lines: list[bytes]) -> list[bytes]:
    free = [f"{network}.{host}" for network in NETWORKS for host in range(1, 255)]
    secrets.SystemRandom().shuffle(free)
    known: dict[bytes, bytes] = {}
    changed = []
    for line in lines:
        address, rest = line.split(b" ", 1)
        if address not in known:
            known[address] = free.pop().encode()
        changed.append(known[address] + b" " + rest)
    return changed


def _cut_short(line: bytes, rng: random.Random) -> bytes:
    """The disk was full, or the writer died."""
    return line[: rng.randrange(12, len(line) - 20)]


def _lost_start(line: bytes, rng: random.Random) -> bytes:
    """A rotation took the first part of the line with it."""
    return line[rng.randrange(18, len(line) // 2) :]


def _garbage(line: bytes, rng: random.Random) -> bytes:
    """A block of something else; newlines would make it several lines."""
    at = rng.randrange(len(line) - 40)
    junk = bytes(byte for byte in rng.randbytes(48) if byte not in b"\r\n")
    return line[:at] + junk + line[at + 30 :]


def _lost_quote(line: bytes, rng: random.Random) -> bytes:
    """One quotation mark is gone."""
    at = rng.choice([index for index, byte in enumerate(line) if byte == ord('"')])
    return line[:at] + line[at + 1 :]


def _extra_quote(line: bytes, rng: random.Random) -> bytes:
    """A quotation mark inside the request, as a program that does not escape would write it."""
    at = line.index(b'"') + rng.randrange(3, 8)
    return line[:at] + b'"' + line[at:]


def _lost_field(line: bytes, rng: random.Random) -> bytes:
    """The status, or one of the two times, is missing."""
    words = line.split(b" ")
    del words[rng.choice((8, -2, -1))]
    return b" ".join(words)


def _word_for_number(line: bytes, _rng: random.Random) -> bytes:
    """A field that should be a number is the word a careless formatter writes for nothing."""
    words = line.split(b" ")
    words[-1] = b"null"
    return b" ".join(words)


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut short": _cut_short,
    "start lost": _lost_start,
    "binary garbage": _garbage,
    "quote lost": _lost_quote,
    "quote inside": _extra_quote,
    "field missing": _lost_field,
    "word for a number": _word_for_number,
}


def _damage(lines: list[bytes], rng: random.Random) -> dict[int, str]:
    """Damage `DAMAGED` lines in place; line numbers (from 1) and what was done to each."""
    whole = [i for i, line in enumerate(lines) if line.count(b" HTTP/1.1") == 1]
    done: dict[int, str] = {}
    for index in rng.sample(whole, DAMAGED):
        kind = rng.choice(list(KINDS))
        lines[index] = KINDS[kind](lines[index], rng)
        done[index + 1] = kind
    return done


if __name__ == "__main__":
    main()

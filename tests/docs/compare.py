"""Compare what a page says is printed with what was printed, loosely."""

import re

ANYTHING = re.compile("…|\\.\\.\\.")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def missing(expected: str, printed: str, *, any_number: bool = False) -> str | None:
    """Return the first expected line that was not printed behind those before it, or None.

    Blanks count as one, blank lines not at all; `…` stands for anything within a line, alone on a
    line for any lines. With `any_number` each number stands for any.
    """
    left = [" ".join(line.split()) for line in printed.splitlines()]
    for line in expected.splitlines():
        wanted = " ".join(line.split())
        if not wanted or ANYTHING.fullmatch(wanted):
            continue
        pattern = _pattern(wanted, any_number=any_number)
        found = next((at for at, have in enumerate(left) if pattern.fullmatch(have)), None)
        if found is None:
            return line
        del left[: found + 1]
    return None


def _pattern(line: str, *, any_number: bool) -> re.Pattern[str]:
    literal = NUMBER.split if any_number else lambda text: [text]
    parts = [
        NUMBER.pattern.join(re.escape(text) for text in literal(part))
        for part in ANYTHING.split(line)
    ]
    return re.compile(".*".join(parts))

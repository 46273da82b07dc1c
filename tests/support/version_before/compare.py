"""A recorded JSON value against the one found now."""

from collections.abc import Iterator
from typing import Any


def differences(recorded: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each difference; keys that only `found` has are additions, and none."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            if key in found:
                yield from differences(value, found[key], f"{path}/{key}")
            else:
                yield f"{path}/{key}: missing; recorded: {shortened(value)}"
        return
    if isinstance(recorded, list) and isinstance(found, list):
        if len(recorded) != len(found):
            yield f"{path}: {len(found)} items; recorded: {len(recorded)}"
        for at, (old, new) in enumerate(zip(recorded, found, strict=False)):
            yield from differences(old, new, f"{path}/{at}")
        return
    if recorded != found:
        yield f"{path}: {shortened(found)}; recorded: {shortened(recorded)}"


def shortened(value: Any, characters: int = 200) -> str:
    """The value's text, cut."""
    text = repr(value)
    return text if len(text) <= characters else text[:characters] + "…"

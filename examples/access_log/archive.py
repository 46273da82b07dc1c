"""The captured log as it is shipped: unpacked, and checked against its manifest."""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Archive:
    """All lines in the order nginx wrote them, and how many of them were damaged by hand."""

    lines: list[bytes]
    damaged: int
    first_event_time: float
    last_event_time: float

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return self.last_event_time - self.first_event_time


def load(folder: Path = HERE) -> Archive:
    """Read `access.log.xz`; raises ValueError where it is not what `manifest.json` describes."""
    manifest = json.loads((folder / "manifest.json").read_text())
    content = lzma.decompress((folder / "access.log.xz").read_bytes())
    if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
        raise ValueError(f"{folder / 'access.log.xz'} is not the log its manifest describes")
    # Not splitlines(): a damaged line may hold any byte but the newline.
    lines = content.removesuffix(b"\n").split(b"\n")
    return Archive(
        lines, manifest["damaged"], manifest["first_event_time"], manifest["last_event_time"]
    )

"""Small executable scripts in a private directory."""

import os
from pathlib import Path


def write_script(path: Path, content: str) -> None:
    """Write `content` to the executable file `path`; safe for concurrent processes."""
    if path.is_file() and path.read_text() == content:
        return
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.write_text(content)
    fresh.chmod(0o700)
    fresh.replace(path)

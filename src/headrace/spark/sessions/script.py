"""Small scripts of our own in a private directory."""

import os
from pathlib import Path


def write_script(path: Path, content: str) -> None:
    """Make `path` an executable file with `content`. Several processes may do it at once."""
    if path.is_file() and path.read_text() == content:
        return
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.write_text(content)
    fresh.chmod(0o700)
    fresh.replace(path)

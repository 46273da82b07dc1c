"""A digest of a project's files and of the versions that run them.

A plan is only made again when the digest differs from the one that it was made for.
"""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.pipeline.project import Project

CONTENT_BYTES_MAX = 1_000_000
"""Larger files count by size and time of change."""
_IGNORED = {"tests", "__pycache__", "node_modules"}


def code_digest(project: Project) -> str:
    """Return a digest of a project's files, its settings, and of Spark, Python and Headrace.

    All files of the project's directory count but those of tests, of the storage, of hidden and of
    virtual environments' directories. Packages that are installed elsewhere do not count.
    """
    digest = sha256()
    digest.update(f"{version('pyspark')} {version('headrace')} {sys.version_info[:2]}".encode())
    digest.update(repr((project.profile, sorted(project.configuration.items()))).encode())
    for path in _files(project.directory, project.storage.resolve()):
        digest.update(f"\n{path.relative_to(project.directory)}\n".encode())
        try:
            status = path.stat()
            if status.st_size > CONTENT_BYTES_MAX:
                digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
            else:
                digest.update(sha256(path.read_bytes()).digest())
        except OSError as error:  # A link to nothing, or a file of another user.
            digest.update(f"errno {error.errno}".encode())
    return digest.hexdigest()


def _files(directory: Path, storage: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir(), key=lambda each: each.name):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            yield entry
        elif (
            entry.name not in _IGNORED
            and entry.resolve() != storage
            and not (entry / "pyvenv.cfg").exists()
            and not os.path.islink(entry)
        ):
            yield from _files(entry, storage)

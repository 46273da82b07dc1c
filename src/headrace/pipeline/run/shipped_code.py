"""The project's own code for Spark's executors, the same in a local session and on a cluster.

Modules are sent as a zip that workers import from. Files with declarations cannot be imported
there, as their decorators need the driver's registry: their functions are sent by value.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from pyspark import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.pipeline.load import Loaded
    from headrace.pipeline.run.storage import Storage

ARCHIVE = re.compile(r".*/code-[0-9a-f]{12}\.zip/")
"""Beginning of the path of a module in a worker's copy of the zip."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all members, so that the same code gives the same bytes."""


@contextmanager
def shipped(spark: SparkSession, found: Loaded, storage: Storage) -> Iterator[str]:
    """Give a session's executors the project's code for functions of this context.

    Yield the name of the file that has it. OSError.
    """
    made = zip_of(found.project.directory, storage.root, storage.own)
    spark.sparkContext.addPyFile(str(made))
    for module in found.modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield made.name
    finally:
        for module in found.modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def zip_of(directory: Path, without: Path, target: Path) -> Path:
    """Write the Python modules below `directory` to a zip in `target`; return its path.

    Hidden directories and `without`, the storage, are left out. Its name contains a digest of the
    code. OSError.
    """
    files = {path: path.read_bytes() for path in sorted(_modules(directory, without))}
    digest = blake2b(digest_size=6)
    for path, content in files.items():
        digest.update(f"{path.relative_to(directory)}\0{len(content)}\0".encode() + content)
    target.mkdir(parents=True, exist_ok=True)
    for older in target.glob("code-*.zip"):
        older.unlink()
    made = target / f"code-{digest.hexdigest()}.zip"
    folders = {
        f"{parent.as_posix()}/"
        for path in files
        for parent in path.relative_to(directory).parents
        if parent.name
    }
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        # Without entries of their own, folders that have no __init__.py are not found for import.
        for folder in sorted(folders):
            archive.writestr(zipfile.ZipInfo(folder, _EPOCH), b"")
        for path, content in files.items():
            member = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _EPOCH)
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return made


def _modules(directory: Path, without: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.name.startswith(".") or path == without:
            continue
        if path.is_dir() and not path.is_symlink() and not (path / "pyvenv.cfg").exists():
            yield from _modules(path, without)
        elif path.suffix == ".py" and path.is_file():
            yield path

"""Interpreters of given versions on this machine: on the PATH, of pyenv, of uv."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

CHECK = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


class NoPython(Exception):
    """An interpreter that was asked for is not installed; says how to install it."""


def find(versions: Iterable[str]) -> dict[str, Path]:
    """Return an interpreter with venv for each version, such as 3.13. NoPython."""
    found, missing = {}, []
    for version in versions:
        works = next((path for path in _candidates(version) if _is(path, version)), None)
        if works is None:
            missing.append(version)
        else:
            found[version] = works
    if missing:
        raise NoPython(
            f"no Python {' and no Python '.join(missing)} with venv on the PATH, of pyenv or of uv."
            f" Install it (apt-get install python{missing[0]}-venv where the distribution has it,"
            f" pyenv install {missing[0]}), or name those to test: PYTHONS='{' '.join(found)}'"
        )
    return found


def _candidates(version: str) -> Iterator[Path]:
    name, home = f"python{version}", Path.home()
    for directory in os.environ["PATH"].split(os.pathsep):
        yield Path(directory) / name
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local" / "share"))
    yield from sorted(data.glob(f"uv/python/cpython-{version}.*/bin/{name}"), reverse=True)


def _is(path: Path, version: str) -> bool:
    """Whether the file runs as this version: pyenv's shims may refuse, Debian's may lack venv."""
    if not path.is_file():
        return False
    asked = subprocess.run([path, "-I", "-c", CHECK], capture_output=True, text=True, check=False)
    return asked.stdout.strip() == version

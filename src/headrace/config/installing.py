"""The command that installs a missing package for the Python that runs."""

import re
import sys
from shlex import join

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_command(*packages: str) -> str:
    """Return a shell's command that installs `packages` where this Python finds them.

    It names packages, not an extra of ours: whether headrace came from a checkout, a wheel or an
    index, the command is the same and needs no network but theirs.
    """
    wanted = [_requirement(package) for package in packages]
    return join([sys.executable or "python3", "-m", "pip", "install", *wanted])


def _requirement(package: str) -> str:
    """Return what headrace's own metadata require of a package: its name and versions."""
    from importlib import metadata  # not where nothing is missing: a broker's start is counted

    try:
        requirements = metadata.requires("headrace") or []
    except metadata.PackageNotFoundError:
        requirements = []
    for requirement in requirements:
        specification = requirement.partition(";")[0].strip()
        found = _NAME.match(specification)
        if found and found[0].lower().replace("_", "-") == package.lower().replace("_", "-"):
            return specification
    return package

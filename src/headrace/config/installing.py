"""The command that installs a missing package for the Python that runs."""

import re
import sys
from shlex import join

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_command(*packages: str) -> str:
    """Return the shell command that installs `packages` for the running Python.

    It names the packages, not an extra of headrace: the command is the same whether headrace came
    from a checkout, a wheel or an index, and it needs no index that has headrace.
    """
    wanted = [_requirement(package) for package in packages]
    return join([sys.executable or "python3", "-m", "pip", "install", *wanted])


def _requirement(package: str) -> str:
    """Return a package's name with the versions that headrace's metadata require."""
    from importlib import metadata  # imported only when a package is missing: start-up time

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

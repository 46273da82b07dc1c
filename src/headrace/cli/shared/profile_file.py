"""The file of profiles: one for each user, for nobody else to read."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headrace.cli.shared.failure import EXIT_NOT_FOUND, CommandError

ENVIRONMENT = "HEADRACE_PROFILE"
"""Names the profile of a shell."""
_MODE_OF_DIRECTORY = 0o700


class Profiles(NamedTuple):
    """What the file says."""

    current: str | None
    addresses: dict[str, str]
    """Where each profile's brokers are, as -b takes it."""

    def used(self) -> str | None:
        """Return the profile that holds here: the environment's, else the file's."""
        return os.environ.get(ENVIRONMENT) or self.current

    def bootstrap_of(self, name: str) -> str:
        """Return a profile's addresses. CommandError where there is none of that name."""
        if name not in self.addresses:
            known = ", ".join(sorted(self.addresses)) or "none at all"
            raise CommandError(f"there is no profile {name}; there are: {known}", EXIT_NOT_FOUND)
        return self.addresses[name]


def path() -> Path:
    """Return where the file is, there or not (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification has paths that are not absolute passed over.
    directory = Path(base) if base.startswith("/") else Path.home() / ".config"
    return directory / "headrace" / "profiles.json"


def load() -> Profiles:
    """Read the file; no profiles where there is none. CommandError where it is no such file."""
    where = path()
    try:
        content = json.loads(where.read_bytes())
        profiles = content["profiles"]
        addresses = {str(name): str(each["bootstrap"]) for name, each in profiles.items()}
        current = content.get("current")
    except FileNotFoundError:
        return Profiles(None, {})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(f"{where} is no file of profiles: mend it or remove it") from None
    return Profiles(current if current in addresses else None, addresses)


def save(profiles: Profiles) -> None:
    """Write the file at once and whole, with mode 0600. OSError."""
    where = path()
    where.parent.mkdir(mode=_MODE_OF_DIRECTORY, parents=True, exist_ok=True)
    content = {
        "version": 1,
        "current": profiles.current,
        "profiles": {
            name: {"bootstrap": bootstrap} for name, bootstrap in profiles.addresses.items()
        },
    }
    # Made with 0600, whatever the umask is.
    number, part = tempfile.mkstemp(prefix=".profiles-", dir=where.parent)
    try:
        with os.fdopen(number, "w") as file:
            file.write(json.dumps(content, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(where)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(part).unlink()
        raise


def chosen_bootstrap() -> str | None:
    """Return the addresses of the profile that is used; None: none is. CommandError."""
    profiles = load()
    used = profiles.used()
    return None if used is None else profiles.bootstrap_of(used)

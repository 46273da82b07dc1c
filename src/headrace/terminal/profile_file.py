"""The file of profiles: one per user, closed to other users, as it may hold passwords."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from headrace.config.client_settings import is_secret
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError

ENVIRONMENT = "HEADRACE_PROFILE"
"""The environment variable that names a profile for one shell."""
_MODE_OF_DIRECTORY = 0o700
_OTHERS = 0o077
"""Permission bits of the group and of others."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Profile(NamedTuple):
    """A cluster's address and client settings."""

    bootstrap: str
    """Bootstrap brokers, as -b accepts them."""
    settings: Mapping[str, str] = _NOTHING
    """Client settings by Kafka's names; may hold secrets."""

    def __repr__(self) -> str:
        return f"Profile({self.bootstrap}, {', '.join(self.settings)})"


class Profiles(NamedTuple):
    """The content of the profile file: all profiles, and the current one's name."""

    current: str | None
    """The profile used by default, or None."""
    known: dict[str, Profile]

    def used(self) -> str | None:
        """Return the profile to use: the environment variable's, else the file's current one."""
        return os.environ.get(ENVIRONMENT) or self.current

    def named(self, name: str) -> Profile:
        """Return a profile by name. CommandError: unknown."""
        if name not in self.known:
            known = ", ".join(sorted(self.known)) or "none"
            raise CommandError(f"there is no profile {name}; there are: {known}", EXIT_NOT_FOUND)
        return self.known[name]


def path() -> Path:
    """Return the file's path, whether it exists or not (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification requires paths that are not absolute to be ignored.
    directory = Path(base) if base.startswith("/") else Path.home() / ".config"
    return directory / "headrace" / "profiles.json"


def load() -> Profiles:
    """Read the file; return no profiles if it does not exist.

    CommandError: the file is invalid, or holds secrets and is open to other users.
    """
    where = path()
    try:
        with where.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = json.loads(file.read())
        profiles = content["profiles"]
        known = {str(name): _profile(each) for name, each in profiles.items()}
        current = content.get("current")
    except FileNotFoundError:
        return Profiles(None, {})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(f"{where} is not a valid profile file: correct or remove it") from None
    if mode & _OTHERS and any(map(is_secret, _all_names(known))):
        raise CommandError(
            f"{where} contains passwords, and other users can read or change it (mode"
            f" {mode & 511:04o}): chmod 600 {where}, and change the passwords if they may be"
            " known"
        )
    return Profiles(current if current in known else None, known)


def _profile(said: Mapping[str, object]) -> Profile:
    settings = said.get("settings", {})
    if not isinstance(settings, dict):
        raise TypeError("settings")
    return Profile(
        str(said["bootstrap"]), {str(name): str(value) for name, value in settings.items()}
    )


def _all_names(known: Mapping[str, Profile]) -> list[str]:
    return [name for profile in known.values() for name in profile.settings]


def save(profiles: Profiles) -> None:
    """Write the file atomically, with mode 0600. Raises OSError."""
    where = path()
    where.parent.mkdir(mode=_MODE_OF_DIRECTORY, parents=True, exist_ok=True)
    content = {
        "version": 1,
        "current": profiles.current,
        "profiles": {
            name: {"bootstrap": profile.bootstrap}
            | ({"settings": dict(profile.settings)} if profile.settings else {})
            for name, profile in profiles.known.items()
        },
    }
    # mkstemp creates it with mode 0600, independent of the umask.
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


def chosen() -> tuple[str, Profile] | None:
    """Return name and content of the profile in use; None: none is. CommandError: it is missing."""
    profiles = load()
    used = profiles.used()
    return None if used is None else (used, profiles.named(used))

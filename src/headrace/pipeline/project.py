"""A pipeline's project: `pipeline.toml` and the files that it names.

name = "shop"
storage = "data"                              # tables and state; relative to this file
libraries = ["transformations/**"]            # files with declarations
trigger = "10 seconds"
stop_timeout = "4 minutes"                    # longest wait for a running batch at the end
worker_losses_max = 20                        # in a row, without a finished batch
configuration = { "spark.sql.shuffle.partitions" = "4" }
[profile.prod]                                # what differs there
cluster = "prod"                              # a `headrace profile`
storage = "/mnt/lake/shop"
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from headrace.pipeline.declarations import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "pipeline.toml"
STOP_SECONDS_MAX = 240.0
"""Default longest wait for running batches, less than that of `headrace pipeline stop`."""
WORKER_LOSSES_MAX = 20
"""Default number of lost workers in a row, without a finished batch, that ends a run."""
LIBRARIES = ("transformations/**",)
TRIGGER = "10 seconds"
TOPIC_TRIGGER = "1 second"
"""Default trigger of flows to topics, which have no versions that could become too many."""
NAME_CHARACTERS_MAX = 100
"""Most characters of a pipeline's name with its profile: topics are named after it."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS_MAX}}}")
_TIME = re.compile(r"(\d+(?:\.\d+)?) *(millisecond|second|minute|hour)s?")
_UNIT_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}
_KINDS: dict[str, type] = {
    "storage": str,
    "cluster": str,
    "registry": str,
    "master": str,
    "webhook": str,
    "trigger": str,
    "stop_timeout": str,
    "worker_losses_max": int,
    "configuration": dict,
}
"""Keys that a profile may have, with their types."""
_TOP: dict[str, type] = {**_KINDS, "name": str, "libraries": list, "profile": dict}


@dataclass(frozen=True)
class Project:
    """The settings of a pipeline for one profile."""

    directory: Path
    name: str
    libraries: tuple[str, ...]
    storage: Path
    trigger: str
    """Time between two batches of a flow to a table, such as "10 seconds"."""
    topic_trigger: str
    """The same for a flow to a topic."""
    stop_seconds_max: float
    """How long the end of a run waits for running batches."""
    worker_losses_max: int
    """Lost workers in a row, without a finished batch in between, that end a run."""
    cluster: str | None
    """Name of the profile of the cluster; None: the default address."""
    configuration: Mapping[str, str]
    """Settings of the Spark session."""
    settings: Mapping[str, str]
    """The other keys: registry, master, webhook."""
    profile: str | None
    profiles: tuple[str, ...]
    """Names of all profiles of the project."""

    @property
    def identity(self) -> str:
        """The name under which tables and topics know the pipeline with this profile."""
        return self.name if self.profile is None else f"{self.name}-{self.profile}"

    @property
    def trigger_seconds(self) -> float:
        """The longest trigger in seconds."""
        return max(_seconds(self.trigger), _seconds(self.topic_trigger))

    def files(self) -> list[Path]:
        """Return the files with declarations, sorted; DeclarationError if there are none."""
        found = {
            path
            for pattern in self.libraries
            for path in self.directory.glob(_recursive(pattern))
            if path.is_file() and path.suffix in (".py", ".sql")
        }
        if not found:
            raise DeclarationError(
                f"{self.directory / FILE}: libraries names no file: {', '.join(self.libraries)}"
            )
        return sorted(found)


def load_project(directory: Path, profile: str | None = None) -> Project:
    """Read a project's settings. DeclarationError, which names file and key."""
    file = directory / FILE
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeclarationError(f"there is no {FILE} in {directory}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{file}: {error}") from None
    _check(str(file), given, _TOP)
    name = given.get("name", "")
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"{file}: name is {name!r}, not letters, digits, _ and -")
    profiles = given.get("profile", {})
    for each, settings in profiles.items():
        if not _NAME.fullmatch(each):
            raise DeclarationError(f"{file}: profile {each!r} is not letters, digits, _ and -")
        if not isinstance(settings, dict):
            raise DeclarationError(f"{file}: profile.{each} is not a table: write [profile.{each}]")
        _check(f"{file}: profile.{each}", settings, _KINDS)
        if len(f"{name}-{each}") > NAME_CHARACTERS_MAX:
            raise DeclarationError(
                f"{file}: the name {name}-{each} has over {NAME_CHARACTERS_MAX} characters, and "
                "topics are named after it: shorten the name of the pipeline or of the profile"
            )
    if profile is not None and profile not in profiles:
        known = ", ".join(profiles) or "none"
        raise DeclarationError(f"{file}: there is no profile {profile}; there are: {known}")
    chosen = {**given, **(profiles[profile] if profile else {})}
    trigger = chosen.get("trigger", TRIGGER)
    stop_timeout = chosen.get("stop_timeout", f"{STOP_SECONDS_MAX:g} seconds")
    _check_times(file, trigger=trigger, stop_timeout=stop_timeout)
    losses = chosen.get("worker_losses_max", WORKER_LOSSES_MAX)
    if losses < 1:
        raise DeclarationError(f"{file}: worker_losses_max is {losses}, and must be at least 1")
    libraries = given.get("libraries", list(LIBRARIES))
    if not libraries or not all(isinstance(each, str) for each in libraries):
        raise DeclarationError(f"{file}: libraries is a list of patterns: {list(LIBRARIES)}")
    configuration = {**given.get("configuration", {}), **chosen.get("configuration", {})}
    return Project(
        directory=directory,
        name=name,
        libraries=tuple(libraries),
        storage=directory / chosen.get("storage", "data"),
        trigger=trigger,
        topic_trigger=chosen.get("trigger", TOPIC_TRIGGER),
        stop_seconds_max=_seconds(stop_timeout),
        worker_losses_max=losses,
        cluster=chosen.get("cluster"),
        configuration={key: _text(value) for key, value in configuration.items()},
        settings={key: chosen[key] for key in ("registry", "master", "webhook") if key in chosen},
        profile=profile,
        profiles=tuple(profiles),
    )


def _check(where: str, given: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for key, value in given.items():
        if key not in kinds:
            near = get_close_matches(key, kinds, 1)
            raise DeclarationError(
                f"{where}: there is no key {key}{f'; did you mean {near[0]}?' if near else ''}"
            )
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise DeclarationError(f"{where}: {key} is {value!r}, not a {kinds[key].__name__}")


def _check_times(file: Path, **times: str) -> None:
    for key, text in times.items():
        if not _seconds(text):
            raise DeclarationError(
                f'{file}: {key} is {text!r}, not a time such as "10 seconds" or "1 minute"'
            )


def _seconds(time: str) -> float:
    """Return a time such as "10 seconds" in seconds; 0 for another text."""
    found = _TIME.fullmatch(time.strip())
    return 0.0 if found is None else float(found[1]) * _UNIT_SECONDS[found[2]]


def _recursive(pattern: str) -> str:
    """Return the pattern such that a final `**` matches files, as in Spark's specification."""
    return f"{pattern}/*" if pattern.endswith("**") else pattern


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The project that a verb of `headrace pipeline` works on."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.terminal.broker_options import BOOTSTRAP_VARIABLE
from headrace.terminal.failure import EXIT_NOT_FOUND, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from headrace.pipeline.project import Project
    from headrace.pipeline.run.storage import Storage
    from headrace.terminal.broker_options import BrokerOptions, Chosen

ProjectDirectory = Annotated[
    Path,
    Parameter(name=["--directory", "-d"], help="The project's directory, which has pipeline.toml."),
]
ProjectProfile = Annotated[
    str | None,
    Parameter(
        name=["--project-profile", "-p"],
        help="The profile in pipeline.toml whose settings are used.",
    ),
]


def storages_of(project: "Project") -> "list[tuple[Project, Storage]]":
    """Return a project with its storage for each profile that has run; with `-p` only that one.

    If none has run yet, the project itself. CommandError for wrong settings.
    """
    from headrace.pipeline.run.storage import Storage

    own = (project, Storage.of(project))
    if project.profile is not None:
        return [own]
    others = [project_in(project.directory, name) for name in project.profiles]
    every = [own, *((other, Storage.of(other)) for other in others)]
    marked = [
        (each, storage)
        for each, storage in every
        if storage.marked() == {"pipeline": each.name, "profile": each.profile}
    ]
    return marked or [own]


def given_words(directory: Path, profile: str | None) -> str:
    """Return the options that name the project in a command to repeat, with a space before each."""
    words = [] if directory == Path() else ["-d", str(directory)]
    words += [] if profile is None else ["-p", profile]
    return "".join(f" {shlex.quote(word)}" for word in words)


def project_in(directory: Path, profile: str | None) -> "Project":
    """Return the project in a directory. CommandError: no project, or wrong settings."""
    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.project import FILE, load_project

    if not (directory / FILE).is_file():
        raise CommandError(f"there is no {FILE} in {directory.absolute()}", EXIT_NOT_FOUND)
    try:
        return load_project(directory.absolute(), profile)
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def with_cluster(options: "BrokerOptions", project: "Project") -> "BrokerOptions":
    """Return the options, with the project's cluster unless they name another one."""
    given = options.bootstrap if options.bootstrap != os.environ.get(BOOTSTRAP_VARIABLE) else None
    named = options.profile is not None or given is not None or options.settings
    if project.cluster is not None and not named:
        return replace(options, profile=project.cluster)
    return options


def cluster_of(options: "BrokerOptions", project: "Project") -> "Chosen":
    """Return the cluster that the options name, else the one of the project's settings."""
    return with_cluster(options, project).chosen()

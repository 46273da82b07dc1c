"""Import a project's files and collect what they declare."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.pipelines.graph_element_registry import graph_element_registration_context

from headrace.pipeline.declarations import WITHOUT_CDC
from headrace.pipeline.graph import Graph, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from headrace.pipeline.project import Project

_CDC = "create_auto_cdc_flow"


@dataclass(frozen=True)
class Finding:
    """An error in a project, with its place."""

    text: str
    place: Place | None = None

    def __str__(self) -> str:
        return self.text if self.place is None else f"{self.place}: {self.text}"


@dataclass
class Loaded:
    """A project's declarations, and the errors of its files."""

    project: Project
    graph: Graph = field(default_factory=Graph)
    findings: list[Finding] = field(default_factory=list)
    modules: list[ModuleType] = field(default_factory=list)
    """The imported files with declarations."""


@contextmanager
def loaded(project: Project) -> Iterator[Loaded]:
    """Import the project's files; its modules stay importable in this context.

    Nothing is written to the project's directory. An error in a file is a finding; the other files
    are still imported.
    """
    before, writes_bytecode = set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(project.directory))
    result = Loaded(project)
    try:
        for path in project.files():
            with graph_element_registration_context(result.graph):
                _load(result, path)
        yield result
    finally:
        sys.dont_write_bytecode = writes_bytecode
        sys.path.remove(str(project.directory))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is None or file.startswith(f"{project.directory}/"):
                del sys.modules[name]


def _load(result: Loaded, path: Path) -> None:
    directory = result.project.directory
    if path.suffix == ".sql":
        result.findings.append(
            Finding("files of SQL are not supported; declare it in Python", Place(str(path), None))
        )
        return
    name = ".".join(path.relative_to(directory).with_suffix("").parts)
    if name in sys.modules:
        result.modules.append(sys.modules[name])
        return  # Another file has imported it.
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
        result.modules.append(module)
    except Exception as error:  # noqa: BLE001 - any error of the project's code is a finding
        del sys.modules[name]
        result.findings.append(finding_of(error, directory, str(path)))


def sentence_of(error: Exception) -> str:
    """Return the first line of an error's text, without Spark's SQLSTATE; "" for no text."""
    lines = str(error).strip().splitlines()
    return lines[0].partition(" SQLSTATE:")[0] if lines else ""


def finding_of(error: Exception, directory: Path, file: str | None = None) -> Finding:
    """Return an error of the project's code as a finding, placed at the project's last line."""
    if isinstance(error, SyntaxError) and error.filename:
        return Finding(f"{error.msg}", Place(error.filename, error.lineno))
    place = None if file is None else Place(file, None)
    frames = traceback.extract_tb(error.__traceback__)
    for frame in frames:
        if frame.filename.startswith(f"{directory}/"):
            place = Place(frame.filename, frame.lineno)
    if isinstance(error, ImportError) and any(frame.name == _CDC for frame in frames):
        # It needs a package of Spark Connect before it is registered, and refused.
        return Finding(f"dp.{_CDC} runs under spark-pipelines only: {WITHOUT_CDC}", place)
    text = sentence_of(error)
    kind = type(error).__name__
    return Finding(text if kind == "DeclarationError" and text else f"{kind}: {text}", place)

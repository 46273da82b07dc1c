"""A process that has imported the whole source once, and forks for each fault.

    python -m tests.mutants.warm

Reads one job (`runs.Job`) per line from standard input and answers each with a line: pytest's
`status`, null where its time was over; or that the fault is `cold`: it stands outside functions, so
that only an import shows it.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NoReturn

import coverage
import pytest

import headrace
from tests.mutants.runs import IMPORTED_BEFORE, PYTEST, READY, Job

COLD = 99
"""The status of a child whose fault no swapped function can show; pytest has none so high."""
OF_TESTS = ("hypothesis.strategies", "hypothesis.stateful", "_hypothesis_pytestplugin")
IMPORTED = "HEADRACE_MUTANTS_IMPORTED"
SOURCE = Path(headrace.__file__).parents[1]


def import_all() -> None:
    """Import every module of the source that can be imported here, and what tests stand on."""
    for name in OF_TESTS:
        importlib.import_module(name)
    for path in sorted((SOURCE / "headrace").rglob("*.py")):
        if path.stem == "__main__":
            continue
        name = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        with contextlib.suppress(Exception):
            importlib.import_module(name.removesuffix(".__init__"))


Functions = dict[tuple[str, str], list[FunctionType]]


def functions_of_source() -> Functions:
    """Every function of the source, by its file and qualified name."""
    found: defaultdict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(SOURCE)):
            code = thing.__code__
            found[code.co_filename, code.co_qualname].append(thing)
    return found


Shape = tuple[object, ...]


def _shape(code: CodeType) -> Shape:
    """`code` without its line numbers; functions and classes within it are only named."""
    consts = tuple(
        ("code", const.co_name) if isinstance(const, CodeType) else (type(const), repr(const))
        for const in code.co_consts
    )
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, consts, names, code.co_exceptiontable, code.co_flags


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """`old` and `new`, then the pairs of code within them that stand at the same place."""
    yield old, new
    inside = zip(_inner(old), _inner(new), strict=True)
    for one, other in inside:
        yield from _pairs(one, other)


def _inner(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def swap(functions: Functions, file: str, old: str, new: str) -> bool:
    """Give the functions of `file` that differ in `new` their code; False where that is not all.

    Code outside functions has run already, and a function whose variables are not the same cannot
    take the other's code.
    """
    path = str(SOURCE.parent / file)
    if "jit" in old:
        return False
    old_code, new_code = (compile(text, path, "exec") for text in (old, new))
    try:
        pairs = list(_pairs(old_code, new_code))
    except ValueError:
        return False
    changed = [(one, other) for one, other in pairs if _shape(one) != _shape(other)]
    if not all(one.co_flags & 0x2 and one.co_name != "<module>" for one, _ in changed):
        return False
    if any(one.co_qualname != other.co_qualname for one, other in pairs):
        return False
    return bool(changed) and all(_given(functions, path, pairs, one) for one, _ in changed)


def _given(
    functions: Functions, path: str, pairs: list[tuple[CodeType, CodeType]], changed: CodeType
) -> bool:
    """Give the functions around and in `changed` their new code; False where none can take it."""
    outer = changed.co_qualname.partition(".<locals>")[0]
    taken = False
    for one, other in pairs:
        if one.co_qualname != outer and not one.co_qualname.startswith(outer + ".<locals>"):
            continue
        for function in functions.get((path, one.co_qualname), ()):
            if function.__code__.co_firstlineno != one.co_firstlineno:
                continue
            if function.__code__.co_freevars != other.co_freevars:
                return False
            function.__code__ = other
            taken = True
    return taken


def _run(functions: Functions, job: Job) -> NoReturn:
    """Be the child: take the fault, run pytest, end with its status."""
    status = 1  # what a fault does to pytest itself is noticed, too
    try:
        os.setsid()
        os.environ |= job.environment
        if job.file and not swap(functions, job.file, job.old, job.new):
            status = COLD
        else:
            arguments = [*PYTEST[1:], *IMPORTED_BEFORE, *job.options, *job.tests]
            status = _measured(job.coverage, arguments) if job.coverage else _pytest(arguments)
            _note_imported(job.environment.get(IMPORTED))
    finally:
        os._exit(status)


def _note_imported(path: str | None) -> None:
    """Write which files of tests the child has imported."""
    if path:
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        ours = sorted(file for file in files if file and file.startswith(f"{Path.cwd()}/tests/"))
        Path(path).write_text("".join(f"{file}\n" for file in ours))


def _pytest(arguments: list[str]) -> int:
    return int(pytest.main(arguments))


def _measured(settings: str, arguments: list[str]) -> int:
    measurement = coverage.Coverage(config_file=settings)
    measurement.start()
    try:
        return _pytest(arguments)
    finally:
        measurement.stop()
        measurement.save()


def _wait(child: int, seconds_max: float) -> int | None:
    """The status of `child`; None when its time was over. Its process group ends with it."""
    pidfd = os.pidfd_open(child)
    ended, _, _ = select.select([pidfd], [], [], seconds_max)
    os.close(pidfd)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


def main() -> None:
    """Answer each line of standard input."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    import_all()
    sys.dont_write_bytecode = False  # asserts of tests are rewritten once, not for each fault
    functions = functions_of_source()
    gc.collect()
    gc.freeze()
    answers.write(READY)
    answers.flush()
    for line in sys.stdin:
        job = Job(**json.loads(line))
        child = os.fork()
        if child == 0:
            os.dup2(nowhere, 0)
            _run(functions, job)
        status = _wait(child, job.seconds_max)
        answers.write(json.dumps({"status": status, "cold": status == COLD}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

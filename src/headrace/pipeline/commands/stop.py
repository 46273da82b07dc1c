"""`headrace pipeline stop`: end a run after its batches, on this machine or another one."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.pipeline.commands.projects import ProjectProfile, project_in, storages_of
from headrace.terminal.broker_options import Json, check_seconds
from headrace.terminal.failure import EXIT_FAILED, CommandError, check_installed
from headrace.terminal.output import print_json, print_line

if TYPE_CHECKING:
    from headrace.pipeline.run.lock import Holder
    from headrace.pipeline.run.storage import Storage

_POLL_SECONDS = 0.2


def stop(
    directory: Path = Path(),
    *,
    profile: ProjectProfile = None,
    timeout: Annotated[
        float, Parameter(help="Longest wait for the end, in seconds.", show_default=True)
    ] = 300.0,
    json: Json = False,
) -> int:
    """Stop the runs of a pipeline after their batches, and wait until they have ended.

    Without -p the runs with all profiles are stopped. A run on this machine gets SIGTERM; one on
    another machine with the same disk finds the request in the storage. Nothing runs: nothing is
    done, exit code 0. For example: headrace pipeline stop shop; headrace pipeline stop shop -p prod

    Parameters
    ----------
    directory
        The project's directory, which has pipeline.toml.
    """
    check_seconds("--timeout", timeout)
    check_installed("pyspark", "pyarrow")
    from headrace.pipeline.run.lock import holder_of
    from headrace.pipeline.run.run_status import state_of

    stopped = []
    for project, storage in storages_of(project_in(directory, profile)):
        holder = holder_of(storage.lock)
        if holder is None:
            continue
        _request(storage, holder)
        _wait(storage, holder, timeout)
        state = state_of(project.name, project.profile, storage)
        batches = {name: flow.batch for name, flow in state.flows.items()}
        stopped.append(
            {
                "pipeline": project.name,
                "profile": project.profile,
                "run": holder.run,
                "batches": batches,
            }
        )
        if not json:
            after = ", ".join(f"{name} {batch}" for name, batch in batches.items())
            print_line(f"{project.identity}: run {holder.run} stopped after batches: {after}")
    if json:
        print_json(stopped)
    elif not stopped:
        print_line("nothing runs")
    return 0


def _request(storage: "Storage", holder: "Holder") -> None:
    from headrace.pipeline.run.stop_requests import request_stop

    # The number may be another process's: of another container with this host's name.
    if holder.host == socket.gethostname() and _has_open(holder.pid, storage.lock):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(holder.pid, signal.SIGTERM)
            return
    request_stop(storage.stop_request, holder.run, socket.gethostname())


def _has_open(pid: int, file: Path) -> bool:
    """Return whether a process of this machine has a file open."""
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if descriptor.samefile(file):
                    return True
    return False


def _wait(storage: "Storage", holder: "Holder", timeout: float) -> None:
    from headrace.pipeline.run.lock import holder_of

    deadline = time.monotonic() + timeout
    while holder_of(storage.lock) == holder:
        if time.monotonic() > deadline:
            raise CommandError(
                f"{holder} has not ended within {timeout:g} s: its batch is still running; wait"
                " for longer with --timeout",
                EXIT_FAILED,
            )
        time.sleep(_POLL_SECONDS)

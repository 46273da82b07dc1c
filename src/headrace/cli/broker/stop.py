"""`headrace stop`: stop the broker of a log directory cleanly."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.broker.start import load_config
from headrace.config.broker import BrokerConfig
from headrace.model.errors import ConfigError
from headrace.server.pid_file import default_pid_path, holder
from headrace.terminal.failure import EXIT_FAILED, EXIT_NOT_FOUND, CommandError
from headrace.terminal.output import print_line

_POLL_SECONDS = 0.05


def _config(properties: Path | None, flags: Mapping[str, str]) -> BrokerConfig:
    """Return a broker's configuration; only its log directories are used. Raises ConfigError."""
    # Its listeners are not opened here, so insecure ones are no error.
    flags = {**flags, "insecure.listeners": "true"}
    try:
        return load_config(properties, flags)[0]
    except ConfigError:
        # With --secure its certificate is named by no given setting.
        return load_config(properties, {**flags, "ssl.keystore.location": "created by --secure"})[0]


def stop(
    properties: Annotated[Path | None, Parameter(help="The broker's server.properties.")] = None,
    /,
    *,
    log_dirs: Annotated[
        str | None,
        Parameter(name=["--log-dirs", "--log-dir", "--data"], help="The broker's log directory."),
    ] = None,
    pid_file: Annotated[Path | None, Parameter(help="The broker's pid file.")] = None,
    timeout: Annotated[
        float, Parameter(help="How long to wait until it has stopped, in seconds.")
    ] = 30.0,
) -> None:
    """Stop a broker of this machine cleanly, and wait until it has stopped."""
    path = pid_file
    if path is None:
        flags = {} if log_dirs is None else {"log.dirs": log_dirs}
        path = default_pid_path(_config(properties, flags).log_dirs)
    pid = holder(path)
    if pid is None:
        raise CommandError(f"no broker is running with {path}", EXIT_NOT_FOUND)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while holder(path) == pid:
        if time.monotonic() > deadline:
            raise CommandError(
                f"process {pid} is still running after {timeout:g} s; it may be flushing: wait for"
                " it",
                EXIT_FAILED,
            )
        time.sleep(_POLL_SECONDS)
    print_line(f"stopped process {pid}")

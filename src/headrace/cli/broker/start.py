"""The start of `headrace serve`, and a parser of its plain form without the command library."""

import gc
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.broker import banner
from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError
from headrace.observe import logs
from headrace.server.pid_file import PidFile, default_pid_path
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError

if TYPE_CHECKING:
    from headrace.server.assembly import Server
    from headrace.server.secure.preparation import Secured

log = logging.getLogger(__name__)

KEYS = {
    "--listeners": "listeners",
    "--advertised-listeners": "advertised.listeners",
    "--log-dirs": "log.dirs",
    "--log-dir": "log.dirs",
    "--data": "log.dirs",
    "--broker-id": "broker.id",
    "--node-id": "broker.id",
    "--zookeeper": "zookeeper.connect",
    "--accept-cluster-id": "accept.cluster.id",
    "--management": "management.listener",
    "--metrics": "metrics.listener",
    "--log-level": "log.level",
    "--log-format": "log.format",
}
"""Flags that stand for a configuration key."""
QUIET_FLAGS = ("--quiet", "-q")
"""Flags that suppress the text at the start."""
PAIR_FLAGS = ("--set", "--override")
"""Flags whose value is key=value."""


def flags_of(key: str) -> list[str]:
    """Return the command-line flags that stand for configuration key `key`."""
    return [flag for flag, name in KEYS.items() if name == key]


class Plain(NamedTuple):
    """A parsed plain `serve` command: a file or None, settings by key, and two flags."""

    properties: Path | None
    flags: dict[str, str]
    quiet: bool
    secure: bool = False


def plain_words(arguments: Sequence[str]) -> Plain | None:
    """Parse a plain `serve [FILE] [--flag value]…`, with the same result as the command tree.

    None for everything else, also for mistakes: the command tree reports those.
    """
    if not arguments or arguments[0] != "serve":
        return None
    properties: Path | None = None
    pairs: list[str] = []
    flags: dict[str, str] = {}
    quiet = secure = False
    port = ""
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-"):
            if properties is not None or not word:
                return None
            properties = Path(word)
            continue
        if word == "--port" or word.startswith("--port="):
            text = word.partition("=")[2] if "=" in word else next(words, "")
            if port or not is_port(text):
                return None
            port = text
            continue
        if word == "--insecure":
            flags["insecure.listeners"] = "true"
            continue
        if word in QUIET_FLAGS:
            quiet = True
            continue
        if word == "--secure":
            secure = True
            continue
        flag, equals, value = word.partition("=")
        if not equals:
            value = next(words, "")
        if not value or value.startswith("-"):
            return None
        if flag in PAIR_FLAGS:
            pairs.append(value)
        elif flag in KEYS and KEYS[flag] not in flags:
            flags[KEYS[flag]] = value
        else:
            return None
    if port:
        if "listeners" in flags:
            return None
        flags["listeners"] = listener_on(port, "SASL_SSL" if secure else "PLAINTEXT")
    return Plain(properties, {**parse_pairs(pairs), **flags}, quiet, secure)


PORT_MAX = 65_535


def is_port(text: str) -> bool:
    """Return whether `text` is a port number, or 0 for any free port."""
    return text.isascii() and text.isdigit() and int(text) <= PORT_MAX


def listener_on(port: object, protocol: str = "PLAINTEXT") -> str:
    """Return the listener that --port stands for, on the loopback interface."""
    return f"{protocol}://127.0.0.1:{port}"


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values of `--set key=value`; a later one overrides an earlier one.

    Raises UsageError.
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: must be key=value")
        values[name.strip()] = value
    return values


def start(
    properties: Path | None,
    flags: Mapping[str, str],
    *,
    quiet: bool = False,
    daemon: bool = False,
    log_file: Path | None = None,
    pid_file: Path | None = None,
    secure: bool = False,
) -> int:
    """Run a broker until it is stopped; return the exit code. Raises ConfigError or CommandError.

    `quiet`: print nothing at the start. `secure`: as with --secure.
    """
    secured: Secured | None = None
    if secure:
        from headrace.server.secure.locked_config import prepare

        config, warnings, secured = prepare(_text_of(properties), flags)
    else:
        config, warnings = load_config(properties, flags)
    pid_path = pid_file or default_pid_path(config.log_dirs)
    log_path = None
    if daemon:
        from headrace.server.daemon import detach

        log_path = log_file or Path(config.log_dirs[0]) / "headrace.log"
        detach(log_path)
    elif log_file is not None:
        raise UsageError("--log-file needs --daemon; without it: headrace serve … 2> FILE")
    return _run(config, warnings, pid_path, log_path, secured, quiet=quiet)


def load_config(
    properties: Path | None, flags: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration and its warnings. ConfigError: one line per wrong value."""
    return load(_text_of(properties), os.environ, flags)


def _text_of(properties: Path | None) -> str:
    if properties is None:
        return ""
    try:
        return properties.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{properties}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{properties}: is not UTF-8 text") from None


def _run(
    config: BrokerConfig,
    warnings: list[str],
    pid_path: Path,
    log_path: Path | None,
    secured: "Secured | None",
    *,
    quiet: bool,
) -> int:
    logs.set_up(config.log_level, form=config.log_format)
    for warning in warnings:
        if config.log_format == "json":
            log.warning("%s", warning)
        else:
            print(f"headrace: warning: {warning}", file=sys.stderr)
    # Objects created until it runs are all needed: a collection would find nothing.
    gc.disable()
    from headrace.server.main import serve as run_broker
    from headrace.server.main import serve_until_signal

    pid = PidFile(pid_path)

    def started(server: "Server") -> None:
        try:
            pid.take()
        except BlockingIOError:
            raise
        except OSError as error:
            if not any(directory.fenced for directory in server.directories):
                raise
            # The broker serves from its other log directories.
            log.warning("%s: cannot write the pid file: %s", pid_path, error.strerror or error)
        if secured is not None:
            secured.write_clients(banner.bootstrap_of([server]))
        if not quiet:
            _announce(server, pid_path, log_path, secured)
        if log_path is not None:
            from headrace.server.daemon import release_parent

            release_parent()

    try:
        if secured is not None:
            from headrace.server.secure.first_user import secure_server

            return serve_until_signal(secure_server(config, secured), started, announced=True)
        return run_broker(config, started=started, announced=True)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot start: {where}{reason}", EXIT_FAILED) from None
    finally:
        pid.give_up()


def _announce(
    server: "Server", pid_path: Path, log_path: Path | None, secured: "Secured | None"
) -> None:
    """Print the facts about a started broker.

    `log_path`: its log file if it is in the background.
    """
    facts = banner.facts_of([server])._replace(
        pid_file=str(pid_path),
        log_file=None if log_path is None else str(log_path),
        secure=None if secured is None else secured.facts(),
    )
    stop = f"headrace stop --pid-file {pid_path} ends it."
    ends_by = banner.CTRL_C if log_path is None else stop
    banner.show(facts, server.config.log_format, ends_by=ends_by)

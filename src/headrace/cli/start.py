"""`headrace serve` once its words are understood; and its plain words, understood fast."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.failure import EXIT_FAILED, CommandError, UsageError
from headrace.cli.pidfile import PidFile, default_pid_path
from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError
from headrace.observe import logs

if TYPE_CHECKING:
    from headrace.broker.metadata_image import Endpoint
    from headrace.server.assembly import Server

KEYS = {
    "--listeners": "listeners",
    "--advertised-listeners": "advertised.listeners",
    "--log-dirs": "log.dirs",
    "--log-dir": "log.dirs",
    "--data": "log.dirs",
    "--broker-id": "broker.id",
    "--node-id": "broker.id",
    "--zookeeper": "zookeeper.connect",
    "--metrics": "metrics.listener",
    "--log-level": "log.level",
}
"""Flags that stand for a key of the configuration."""
PAIR_FLAGS = ("--set", "--override")
"""Flags whose value is key=value."""


def flags_of(key: str) -> list[str]:
    """Return the flags that stand for `key`."""
    return [flag for flag, name in KEYS.items() if name == key]


class Plain(NamedTuple):
    """`serve`, a file or none, and settings by key."""

    properties: Path | None
    flags: dict[str, str]


def plain_words(arguments: Sequence[str]) -> Plain | None:
    """Return what a plain `serve [FILE] [--flag value]…` says, as the commands would read it.

    None for everything else, mistakes included: the tree knows what to say to those.
    """
    if not arguments or arguments[0] != "serve":
        return None
    properties: Path | None = None
    pairs: list[str] = []
    flags: dict[str, str] = {}
    words = iter(arguments[1:])
    for word in words:
        if not word.startswith("-"):
            if properties is not None or not word:
                return None
            properties = Path(word)
            continue
        if word == "--port" or word.startswith("--port="):
            text = word.partition("=")[2] if "=" in word else next(words, "")
            if "listeners" in flags or not is_port(text):
                return None
            flags["listeners"] = listener_on(text)
            continue
        if word == "--insecure":
            flags["insecure.listeners"] = "true"
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
    return Plain(properties, {**parse_pairs(pairs), **flags})


PORT_MAX = 65_535


def is_port(text: str) -> bool:
    """Tell whether `text` is the number of a port, or 0 for a free one."""
    return text.isascii() and text.isdigit() and int(text) <= PORT_MAX


def listener_on(port: object) -> str:
    """Return the listener that --port stands for: this machine only."""
    return f"PLAINTEXT://127.0.0.1:{port}"


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values of `--set key=value`, the later wins. UsageError."""
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
    daemon: bool = False,
    log_file: Path | None = None,
    pid_file: Path | None = None,
) -> int:
    """Run a broker until it is told to stop; returns the exit code. ConfigError, CommandError."""
    config, warnings = load_config(properties, flags)
    pid_path = pid_file or default_pid_path(config.log_dirs)
    log_path = None
    if daemon:
        from headrace.cli.daemon import detach

        log_path = log_file or Path(config.log_dirs[0]) / "headrace.log"
        detach(log_path)
    elif log_file is not None:
        raise UsageError("--log-file goes with --daemon; else: headrace serve … 2> FILE")
    return _run(config, warnings, pid_path, log_path)


def load_config(
    properties: Path | None, flags: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """Return the configuration with its warnings. ConfigError: a line for each wrong value."""
    text = ""
    if properties is not None:
        try:
            text = properties.read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"{properties}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{properties}: is not UTF-8 text") from None
    return load(text, os.environ, flags)


def _run(config: BrokerConfig, warnings: list[str], pid_path: Path, log_path: Path | None) -> int:
    logs.set_up(config.log_level)
    for warning in warnings:
        print(f"headrace: warning: {warning}", file=sys.stderr)
    # Until it runs, all that is made stays: nothing is to be found by looking for garbage.
    gc.disable()
    from headrace.server.main import serve as run_broker

    pid = PidFile(pid_path)

    def started(server: "Server") -> None:
        pid.take()
        for line in _told(config, server.endpoints(), pid_path, log_path):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
        if log_path is not None:
            from headrace.cli.daemon import release_parent

            release_parent()

    try:
        return run_broker(config, started=started)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot start: {where}{reason}", EXIT_FAILED) from None
    finally:
        pid.give_up()


def _told(
    config: BrokerConfig, endpoints: "Sequence[Endpoint]", pid_path: Path, log_path: Path | None
) -> list[str]:
    """Return what somebody who started a broker wants to know once it listens."""
    told = [f"{endpoint.listener}://{endpoint.host}:{endpoint.port}" for endpoint in endpoints]
    stop = f"headrace stop --pid-file {pid_path}" if log_path is not None else "Ctrl-C"
    lines = [
        f"  clients are told {', '.join(told)}",
        f"  data in {', '.join(map(os.path.abspath, config.log_dirs))}",
        f"  process {os.getpid()}, noted in {pid_path}",
        f"  log on {'standard error' if log_path is None else log_path}; end it with: {stop}",
    ]
    own = [
        endpoint.host
        for endpoint, advertised in zip(endpoints, config.advertised_listeners, strict=True)
        if not advertised.host
    ]
    if own:
        lines.append(
            f"  {own[0]} is this machine's own name: clients that do not know it need another, by"
            " --advertised-listeners PLAINTEXT://HOST:PORT"
        )
    return lines

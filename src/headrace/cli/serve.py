"""`headrace serve`: from a properties file, variables and flags to a running broker."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.cli.failure import EXIT_FAILED, CommandError, UsageError
from headrace.cli.pidfile import PidFile, default_pid_path
from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError
from headrace.observe import logs

if TYPE_CHECKING:
    from headrace.server.wiring import Server


@Parameter(name="*")
@dataclass(frozen=True)
class Settings:
    """Settings by flags of their own."""

    insecure: Annotated[
        bool,
        Parameter(negative=(), help="Allow listeners that other machines reach without TLS."),
    ] = False
    pairs: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--set", "--override"],
            negative=(),
            help="Any setting as key=value; may be given again.",
        ),
    ] = ()
    listeners: Annotated[
        str | None, Parameter(name="--listeners", help="Where to listen: PLAINTEXT://host:port.")
    ] = None
    advertised: Annotated[
        str | None, Parameter(name="--advertised-listeners", help="Addresses told to clients.")
    ] = None
    log_dirs: Annotated[
        str | None,
        Parameter(name=["--log-dirs", "--log-dir", "--data"], help="Where records are kept."),
    ] = None
    broker_id: Annotated[
        str | None, Parameter(name=["--broker-id", "--node-id"], help="This broker's number.")
    ] = None
    metrics: Annotated[
        str | None,
        Parameter(
            name="--metrics", help="host:port of an HTTP endpoint with /metrics for Prometheus."
        ),
    ] = None
    log_level: Annotated[
        str | None, Parameter(name="--log-level", help="debug, info, warning or error.")
    ] = None

    def by_key(self) -> dict[str, str]:
        """What was given, by configuration key. UsageError."""
        flags = {}
        for pair in self.pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise UsageError(f"--set {pair}: must be key=value")
            flags[name.strip()] = value
        given = {
            "listeners": self.listeners,
            "advertised.listeners": self.advertised,
            "log.dirs": self.log_dirs,
            "broker.id": self.broker_id,
            "metrics.listener": self.metrics,
            "log.level": self.log_level,
            "insecure.listeners": "true" if self.insecure else None,
        }
        flags.update((name, text) for name, text in given.items() if text is not None)
        return flags


def serve(
    properties: Annotated[Path | None, Parameter(help="A server.properties, as Kafka's.")] = None,
    /,
    *,
    settings: Settings = Settings(),
    daemon: Annotated[
        bool,
        Parameter(
            name=["-d", "--daemon"],
            negative=(),
            help="Go to the background once it listens; end it with: headrace stop.",
        ),
    ] = False,
    log_file: Annotated[
        Path | None, Parameter(help="With --daemon: where its log goes, else in the log directory.")
    ] = None,
    pid_file: Annotated[
        Path | None, Parameter(help="Where its process id is noted, else in the log directory.")
    ] = None,
) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Settings are Kafka's; flags win over HEADRACE_… variables (HEADRACE_LOG_DIRS for log.dirs),
    those over the file. All of them: docs/configuration.md.
    """
    config, warnings = load_config(properties, settings.by_key())
    pid_path = pid_file or default_pid_path(config.log_dirs)
    if daemon:
        from headrace.cli.daemon import detach

        detach(log_file or Path(config.log_dirs[0]) / "headrace.log")
    return _run(config, warnings, pid_path, daemon=daemon)


def load_config(properties: Path | None, flags: dict[str, str]) -> tuple[BrokerConfig, list[str]]:
    """The configuration with its warnings. ConfigError: a line for each wrong value."""
    text = ""
    if properties is not None:
        try:
            text = properties.read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"{properties}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{properties}: is not UTF-8 text") from None
    return load(text, os.environ, flags)


def _run(config: BrokerConfig, warnings: list[str], pid_path: Path, *, daemon: bool) -> int:
    logs.set_up(config.log_level)
    for warning in warnings:
        print(f"headrace: warning: {warning}", file=sys.stderr)
    from headrace.server.main import serve as run_broker

    pid = PidFile(pid_path)

    def started(_: "Server") -> None:
        pid.take()
        if daemon:
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

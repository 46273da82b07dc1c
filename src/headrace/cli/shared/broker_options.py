"""Where the cluster is: the options all client commands share."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from headrace.cli.shared.defaults import DEFAULT_BOOTSTRAP
from headrace.cli.shared.failure import UsageError
from headrace.cli.shared.profile_file import chosen_bootstrap
from headrace.cli.shared.profile_file import load as profiles
from headrace.client.client import Client
from headrace.client.sync import connect
from headrace.config.listeners import CLIENT_PROTOCOL
from headrace.config.properties import parse
from headrace.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from headrace.client.security import Credentials

WAIT_SECONDS_MAX = 86_400.0
_BOOTSTRAP = "HEADRACE_BOOTSTRAP"
_COMMAND_CONFIG = "HEADRACE_COMMAND_CONFIG"
_SECRET_SETTINGS = frozenset({"sasl.password", "sasl.jaas.config", "pass", "sasl.pass"})

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Answer in JSON, for scripts.")]


@Parameter(name="*")
@dataclass(frozen=True)
class BrokerOptions:
    """The cluster to talk to."""

    bootstrap: Annotated[
        str | None,
        Parameter(
            name=[
                "--bootstrap-server",
                "-b",
                "--bootstrap",
                "--brokers",
                "--broker",
                "--broker-list",
            ],
            env_var=_BOOTSTRAP,
            help="Brokers to ask first, as host:port,host:port; by default those of the profile"
            f" (headrace profile), else {DEFAULT_BOOTSTRAP}. unix:DATA, on the broker's machine:"
            " by the socket in its log directory, without a password.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        Parameter(name="--profile", help="The profile whose brokers to ask (headrace profile)."),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Parameter(
            name=["-X"], negative=(), help="A client setting as rpk takes it: brokers=host:port."
        ),
    ] = ()
    command_config: Annotated[
        Path | None,
        Parameter(
            name="--command-config",
            env_var=_COMMAND_CONFIG,
            help="A properties file with the client's settings, as Kafka's tools take it:"
            " security.protocol, ssl.truststore.location, sasl.jaas.config and others.",
        ),
    ] = None
    seconds: Annotated[
        float,
        Parameter(
            name="--request-timeout",
            show_default=True,
            help="How long to wait for an answer, in seconds.",
        ),
    ] = 15.0

    def client(self, *, patient: bool = False, retry_seconds: float | None = None) -> Client:
        """Make a client of this cluster; nothing is connected yet. CommandError."""
        bootstrap = self.bootstrap
        given = client_settings(self.command_config)
        if self.profile is not None:
            if bootstrap not in {None, os.environ.get(_BOOTSTRAP)}:
                raise UsageError("--profile and --bootstrap-server: one of them at most")
            bootstrap = profiles().bootstrap_of(self.profile)
        for setting in self.settings:
            name, equals, value = setting.partition("=")
            if name in _SECRET_SETTINGS:
                raise UsageError(
                    f"-X {name}: a secret is for all to see on a command line; put it into a file"
                    " and name that by --command-config"
                )
            if name not in {"brokers", "bootstrap.servers", "metadata.broker.list"} or not equals:
                raise UsageError(f"-X {setting}: only brokers=host:port is known")
            bootstrap = value
        if bootstrap is None:
            bootstrap = given.get("bootstrap.servers")
        if bootstrap is None:
            bootstrap = chosen_bootstrap() or DEFAULT_BOOTSTRAP
        check_seconds("--request-timeout", self.seconds)
        security = _security_of(given)
        try:
            return connect(
                bootstrap,
                client_id="headrace-cli",
                request_timeout_seconds=self.seconds,
                retry_seconds=self.seconds if retry_seconds is None else retry_seconds,
                patient=patient,
                tls=security.tls,
                credentials=security.credentials,
            )
        except ValueError as error:
            raise UsageError(f"--bootstrap-server: {error}") from None


def client_settings(path: Path | None) -> dict[str, str]:
    """Return the settings in a client's properties file, none without one; UsageError."""
    if path is None:
        return {}
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not UTF-8"
        raise UsageError(f"--command-config {path}: {why.lower()}") from None
    except ConfigError as error:
        raise UsageError(f"--command-config {path}: {error}") from None


class _Security(NamedTuple):
    tls: "SSLContext | None" = None
    """What connections are encrypted by."""
    credentials: "Credentials | None" = None
    """Who to be on them."""


def _security_of(settings: "Mapping[str, str]") -> _Security:
    """Return what a client's settings say of security; UsageError."""
    if CLIENT_PROTOCOL not in settings:
        return _Security()
    from headrace.client.security import credentials_in
    from headrace.posix.tls_client import client_context

    try:
        return _Security(client_context(settings), credentials_in(settings))
    except ConfigError as error:
        raise UsageError(f"--command-config: {error}") from None


def check_seconds(flag: str, seconds: float) -> None:
    """Raise UsageError where nobody can wait so long: nothing, nan, more than a day."""
    if not 0 < seconds <= WAIT_SECONDS_MAX:
        raise UsageError(
            f"{flag} {seconds:g}: must be more than 0, and at most {WAIT_SECONDS_MAX:g} seconds"
        )


def pairs(flag: str, texts: "tuple[str, ...]") -> dict[str, str]:
    """Return `k=v` arguments as a mapping; commas part several in one. UsageError."""
    values: dict[str, str] = {}
    for text in texts:
        # A comma only parts pairs where a `k=` follows: cleanup.policy=compact,delete is one.
        for part in _split_pairs(text):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"{flag} {text}: must be key=value")
            values[name.strip()] = value.strip()
    return values


def _split_pairs(text: str) -> list[str]:
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" not in part:
            parts[-1] += "," + part
        else:
            parts.append(part)
    return parts

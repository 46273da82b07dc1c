"""The options by which all client commands find and connect to the cluster."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from headrace.client.client import Client
from headrace.client.sync import connect
from headrace.config.client_settings import is_secret
from headrace.config.listeners import CLIENT_PROTOCOL
from headrace.model.errors import ConfigError
from headrace.terminal.defaults import DEFAULT_BOOTSTRAP
from headrace.terminal.failure import UsageError
from headrace.terminal.profile_file import chosen as chosen_profile
from headrace.terminal.profile_file import load as profiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from headrace.client.transport.credentials import Credentials

WAIT_SECONDS_MAX = 86_400.0
"""The longest wait that an option accepts, in seconds (a day)."""
BOOTSTRAP_VARIABLE = "HEADRACE_BOOTSTRAP"
COMMAND_CONFIG = "HEADRACE_COMMAND_CONFIG"
_NAMES_OF_BOOTSTRAP = frozenset({"brokers", "bootstrap.servers", "metadata.broker.list"})

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Answer in JSON, for scripts.")]


@Parameter(name="*")
@dataclass(frozen=True)
class BrokerOptions:
    """The options that name the cluster and the client's settings."""

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
            env_var=BOOTSTRAP_VARIABLE,
            help="Bootstrap brokers, as host:port,host:port; default: those of the profile"
            " (headrace"
            f" profile), otherwise {DEFAULT_BOOTSTRAP}. unix:DATA, on the broker's machine: the"
            " socket in its log directory, without a password.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        Parameter(
            name="--profile",
            help="The profile whose brokers and settings to use (headrace profile).",
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Parameter(name=["-X"], negative=(), help="A client setting as in rpk: brokers=host:port."),
    ] = ()
    command_config: Annotated[
        Path | None,
        Parameter(
            name="--command-config",
            env_var=COMMAND_CONFIG,
            help="A properties file with client settings, as for Kafka's tools: security.protocol,"
            " ssl.truststore.location, sasl.jaas.config and others.",
        ),
    ] = None
    seconds: Annotated[
        float,
        Parameter(
            name="--request-timeout",
            show_default=True,
            help="Timeout of requests to brokers, in seconds.",
        ),
    ] = 15.0

    def client(self, *, patient: bool = False, retry_seconds: float | None = None) -> Client:
        """Return a client of this cluster, not connected yet. Raises CommandError.

        `retry_seconds`: for how long requests are repeated, by default --request-timeout.
        """
        chosen = self.chosen()
        check_seconds("--request-timeout", self.seconds)
        security = _security_of(chosen)
        try:
            return connect(
                chosen.bootstrap,
                client_id="headrace-cli",
                request_timeout_seconds=self.seconds,
                retry_seconds=self.seconds if retry_seconds is None else retry_seconds,
                patient=patient,
                tls=security.tls,
                credentials=security.credentials,
            )
        except ValueError as error:
            raise UsageError(f"--bootstrap-server: {error}") from None

    def chosen(self) -> "Chosen":
        """Return the brokers' addresses and the client settings to use.

        The settings come from one source, never from two mixed: --command-config, else a --profile
        that has settings, else the file of the environment variable. The current profile's settings
        are used for its own brokers only.
        """
        file, bootstrap, profile = self.command_config, self._asked_for() or self.bootstrap, None
        if self.profile is not None:
            if bootstrap not in {None, os.environ.get(BOOTSTRAP_VARIABLE)}:
                raise UsageError("--profile and --bootstrap-server cannot be combined")
            profile = self.profile, profiles().named(self.profile)
            bootstrap = profile[1].bootstrap
            if profile[1].settings and str(file) == os.environ.get(COMMAND_CONFIG):
                file = None
        given = client_settings(file)
        if bootstrap is None:
            bootstrap = given.get("bootstrap.servers")
        if bootstrap is None:
            profile = chosen_profile()
            bootstrap = profile[1].bootstrap if profile else DEFAULT_BOOTSTRAP
        if file is None and profile is not None:
            return Chosen(bootstrap, profile[1].settings, f"profile {profile[0]}")
        return Chosen(bootstrap, given, "--command-config")

    def _asked_for(self) -> str | None:
        """Return the brokers that -X names, or None. Raises UsageError."""
        bootstrap = None
        for setting in self.settings:
            name, equals, value = setting.partition("=")
            if is_secret(name):
                raise UsageError(
                    f"-X {name}: other users can read secrets on a command line; put it into a"
                    " file and"
                    " pass that with --command-config"
                )
            if name not in _NAMES_OF_BOOTSTRAP or not equals:
                raise UsageError(f"-X {setting}: only brokers=host:port is supported")
            bootstrap = value
        return bootstrap


class Chosen(NamedTuple):
    """The brokers' addresses and the client settings that the options choose."""

    bootstrap: str
    settings: "Mapping[str, str]"
    """Client settings by Kafka's names; may hold secrets."""
    where: str
    """The source of the settings, for error messages."""


class Security(NamedTuple):
    """TLS and credentials from a client's settings."""

    tls: "SSLContext | None" = None
    """Encrypts connections; None: plain text."""
    credentials: "Credentials | None" = None
    """Authenticate connections; None: unauthenticated."""


def client_settings(path: Path | None) -> dict[str, str]:
    """Return the settings in a client's properties file; none without a file. Raises UsageError."""
    if path is None:
        return {}
    from headrace.posix.client_properties import read_client_properties

    try:
        return read_client_properties(path)
    except ConfigError as error:
        raise UsageError(f"--command-config {path}: {error}") from None


def _security_of(chosen: Chosen) -> Security:
    """Return TLS and credentials from the chosen settings; UsageError names their source."""
    try:
        return security_of(chosen.settings)
    except ConfigError as error:
        raise UsageError(f"{chosen.where}: {error}") from None


def security_of(settings: "Mapping[str, str]") -> Security:
    """Return TLS and credentials from a client's settings. Raises ConfigError."""
    if CLIENT_PROTOCOL not in settings:
        return Security()
    from headrace.client.transport.credentials import credentials_in
    from headrace.posix.tls_client import client_context

    return Security(client_context(settings), credentials_in(settings))


def check_seconds(flag: str, seconds: float) -> None:
    """Raise UsageError unless `seconds` is above 0 and at most a day (NaN is refused too)."""
    if not 0 < seconds <= WAIT_SECONDS_MAX:
        raise UsageError(
            f"{flag} {seconds:g}: must be more than 0, and at most {WAIT_SECONDS_MAX:g} seconds"
        )


def pairs(flag: str, texts: "tuple[str, ...]") -> dict[str, str]:
    """Return `k=v` arguments as a mapping; one argument may have several, with commas.

    Raises UsageError.
    """
    values: dict[str, str] = {}
    for text in texts:
        # A comma separates pairs only before a `k=`: cleanup.policy=compact,delete is one pair.
        for part in _split_pairs(text):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"{flag} {text}: must be key=value")
            values[name.strip()] = value.strip()
    return values


def setting_pairs(flag: str, texts: "tuple[str, ...]") -> dict[str, str]:
    """Return settings as `pairs` does, but values of *.ms keys like 1d in milliseconds.

    Raises UsageError.
    """
    from headrace.terminal.offset_positions import span_ms

    settings = pairs(flag, texts)
    for key, value in settings.items():
        if key.endswith(".ms") and (span := span_ms(value)) is not None:
            settings[key] = str(span)
    return settings


def _split_pairs(text: str) -> list[str]:
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" not in part:
            parts[-1] += "," + part
        else:
            parts.append(part)
    return parts

"""How Spark's driver and workers come to the brokers: a client's settings, by Kafka's names.

They are options `kafka.…`, or are in a properties file that each process reads for itself
(`configFile`): then no secret is in an option, in a plan or in what Spark sends to its workers.
"""

import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.client.client import Client
from headrace.client.sync import FetchConnection, connect
from headrace.client.transport.credentials import Credentials, credentials_in
from headrace.client.transport.port import Address
from headrace.config.client_settings import is_security
from headrace.config.listeners import CLIENT_PROTOCOL
from headrace.model.errors import ConfigError
from headrace.posix.client_properties import read_client_properties
from headrace.posix.tls_client import client_context
from headrace.spark.errors import OptionError
from headrace.spark.given_options import GivenOptions

CONFIG_FILE = "configFile"
CONTEXT_SECONDS_MAX = 60.0
"""How long what was read of certificates is used; then their files are read again."""
_CONTEXTS_MAX = 16
_KAFKA = "kafka."
_BOOTSTRAP = "bootstrap.servers"
_CREDENTIALS = frozenset({"sasl.jaas.config", "sasl.username", "sasl.password"})
_SHOWN_BY_SPARK = frozenset({"ssl.keystore.key", "ssl.key.pem"})
"""Spark hides values of options in its plans that have a password in them, and not these."""


@dataclass(frozen=True)
class Security:
    """What a client's settings say of security. Its repr has no secret; workers are sent it."""

    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Those that are options, by Kafka's names."""
    config_file: str | None = None
    """Where more of them are; the options outweigh them."""

    @property
    def guarded(self) -> bool:
        """Whether there are any: then brokers may refuse who connects."""
        return bool(self.given) or self.config_file is not None

    def client(
        self,
        bootstrap: str,
        *,
        client_id: str,
        request_timeout_seconds: float,
        retry_seconds: float,
    ) -> Client:
        """Return a client that waits for brokers; nothing is opened yet. OptionError."""
        tls, credentials = self._resolve()
        return connect(
            bootstrap,
            client_id=client_id,
            request_timeout_seconds=request_timeout_seconds,
            retry_seconds=retry_seconds,
            patient=True,
            tls=tls,
            credentials=credentials,
        )

    def fetch_connection(
        self, address: Address, client_id: str, timeout_seconds: float
    ) -> FetchConnection:
        """Open a connection that only fetches. ClientError, OptionError."""
        tls, credentials = self._resolve()
        return FetchConnection(
            address,
            client_id=client_id,
            timeout_seconds=timeout_seconds,
            tls=tls,
            credentials=credentials,
        )

    def check(self, in_file: Mapping[str, str] | None = None) -> None:
        """Raise OptionError where nobody could connect by these settings.

        `in_file`: what the file says, where it was read already.
        """
        self._resolve(in_file)

    def _resolve(
        self, in_file: Mapping[str, str] | None = None
    ) -> tuple[ssl.SSLContext | None, Credentials | None]:
        if not self.guarded:
            return None, None
        if in_file is None:
            in_file = read_config_file(self.config_file)
        given = dict(self.given)
        settings = _combined(in_file, given)
        if CLIENT_PROTOCOL not in settings and settings:
            raise OptionError(
                f"{_KAFKA}{CLIENT_PROTOCOL}: missing; {_KAFKA}{min(settings)} means something with"
                " SSL, SASL_PLAINTEXT or SASL_SSL only"
            )
        try:
            return _contexts.of(settings), credentials_in(settings)
        except ConfigError as error:
            name = str(error).split("=")[0].split(":")[0]
            where = _KAFKA if name in given or not self.config_file else f"{_named(self)}: "
            raise OptionError(f"{where}{error}") from None


NO_SECURITY = Security()
"""Plain text, and nobody asks who connects."""


class GivenClient(NamedTuple):
    """What options say of how the brokers are reached."""

    bootstrap: str | None
    security: Security
    ignored: tuple[str, ...]
    """Settings in the file that are none of these, for a warning."""


def given_client(given: GivenOptions) -> GivenClient:
    """Return what the options and the file they name say, checked; OptionError.

    Looks at the settings of security alone, and at the brokers' addresses.
    """
    options = {}
    for lower, spelled in given.names():
        key = lower.removeprefix(_KAFKA)
        if key == lower or not is_security(key):
            continue
        if key in _SHOWN_BY_SPARK:
            raise OptionError(
                f"{spelled}: Spark shows this option in its plans: put it into the file that"
                f" {CONFIG_FILE} names, or the key into one of its own"
            )
        options[key] = given.text(spelled) or ""
    security = Security(tuple(sorted(options.items())), given.text(CONFIG_FILE) or None)
    in_file = read_config_file(security.config_file)
    security.check({key: value for key, value in in_file.items() if is_security(key)})
    if (
        security.config_file is None
        and options.get(CLIENT_PROTOCOL, "").strip().upper() == "PLAINTEXT"
    ):
        security = NO_SECURITY  # said in words; the listener needs to know of nothing
    bootstrap = given.text(_KAFKA + _BOOTSTRAP) or given.text(_BOOTSTRAP) or in_file.get(_BOOTSTRAP)
    others = [key for key in in_file if key != _BOOTSTRAP and not is_security(key)]
    return GivenClient(bootstrap, security, tuple(f"{key} (of {CONFIG_FILE})" for key in others))


def read_config_file(name: str | None) -> dict[str, str]:
    """Return the settings in the file an option names, none without one; OptionError.

    A relative name that is not there is looked up among the files that Spark distributes
    (`spark-submit --files`, `SparkContext.addFile`).
    """
    if name is None:
        return {}
    path = name
    if not os.path.isabs(name) and not os.path.exists(name):
        path = _distributed(name) or name
    try:
        return read_client_properties(path)
    except ConfigError as error:
        raise OptionError(f"{CONFIG_FILE} {name}: {error}") from None


def _distributed(name: str) -> str | None:
    from pyspark import SparkContext, SparkFiles

    # Without a context there is no directory of files, and asking for it fails in its own words.
    if not SparkFiles._is_running_on_worker and SparkContext._active_spark_context is None:
        return None
    path = SparkFiles.get(name)
    return path if os.path.exists(path) else None


def _combined(in_file: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the file's settings under those given; never one's user with another's password."""
    left_out = _CREDENTIALS if _CREDENTIALS & given.keys() else frozenset()
    settings = {
        key: value for key, value in in_file.items() if is_security(key) and key not in left_out
    }
    return settings | dict(given)


def _named(security: Security) -> str:
    return f"{CONFIG_FILE} {security.config_file}"


class _Contexts:
    """What TLS connections are made with, kept for a while: making it reads files."""

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[str, str], ...], tuple[float, ssl.SSLContext | None]] = {}

    def of(self, settings: Mapping[str, str]) -> ssl.SSLContext | None:
        """Return the context of these settings, None for plain text; ConfigError."""
        key, now = tuple(sorted(settings.items())), time.monotonic()
        made, context = self._kept.get(key, (float("-inf"), None))
        if now - made < CONTEXT_SECONDS_MAX:
            return context
        context = client_context(settings)
        if len(self._kept) >= _CONTEXTS_MAX:
            self._kept.clear()
        self._kept[key] = (now, context)
        return context


_contexts = _Contexts()

"""Security settings with which Spark's driver and workers connect to brokers, by Kafka's names.

They are options `kafka.…`, or are in a properties file that each process reads (`configFile`). With
the file, no secret is in an option, in a plan or in the data that Spark sends to workers.
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
"""How many seconds a TLS context is reused before its certificate files are read again."""
_CONTEXTS_MAX = 16
_KAFKA = "kafka."
_BOOTSTRAP = "bootstrap.servers"
_CREDENTIALS = frozenset({"sasl.jaas.config", "sasl.username", "sasl.password"})
_SHOWN_BY_SPARK = frozenset({"ssl.keystore.key", "ssl.key.pem"})
"""Secret settings that are refused as options: Spark hides only options with "password" in them."""


@dataclass(frozen=True)
class Security:
    """The security settings of a client. Sent to workers; its repr contains no secret."""

    given: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings given as options, by Kafka's names."""
    config_file: str | None = None
    """Path of a properties file with more settings; options take precedence. None: no file."""

    @property
    def guarded(self) -> bool:
        """Whether any security settings exist, so that brokers may refuse the connection."""
        return bool(self.given) or self.config_file is not None

    def client(
        self,
        bootstrap: str,
        *,
        client_id: str,
        request_timeout_seconds: float,
        retry_seconds: float,
    ) -> Client:
        """Return a client with these settings that also waits for unreachable brokers.

        Raises OptionError. Connections are opened at the first request.
        """
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
        """Open a connection that only fetches. Raises ClientError or OptionError."""
        tls, credentials = self._resolve()
        return FetchConnection(
            address,
            client_id=client_id,
            timeout_seconds=timeout_seconds,
            tls=tls,
            credentials=credentials,
        )

    def check(self, in_file: Mapping[str, str] | None = None) -> None:
        """Raise OptionError if the settings are invalid or incomplete.

        `in_file`: the settings in the file, if they were read already.
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
"""No security settings: plain text without authentication."""


class GivenClient(NamedTuple):
    """The bootstrap address and security settings of a read or write."""

    bootstrap: str | None
    security: Security
    ignored: tuple[str, ...]
    """Settings in the file that the connector does not use, for a warning."""


def given_client(given: GivenOptions) -> GivenClient:
    """Return the client settings in the options and in the file that they name. Raises OptionError.

    Only security settings and bootstrap addresses are validated.
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
        security = NO_SECURITY  # Plain text is stated explicitly, so no security settings remain.
    bootstrap = given.text(_KAFKA + _BOOTSTRAP) or given.text(_BOOTSTRAP) or in_file.get(_BOOTSTRAP)
    others = [key for key in in_file if key != _BOOTSTRAP and not is_security(key)]
    return GivenClient(bootstrap, security, tuple(f"{key} (of {CONFIG_FILE})" for key in others))


def read_config_file(name: str | None) -> dict[str, str]:
    """Return the settings in the file `name`; empty if it is None. Raises OptionError.

    A relative name that does not exist is looked up among the files that Spark distributes
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

    # Without a SparkContext no such directory exists, and SparkFiles would fail with an error of
    # its own.
    if not SparkFiles._is_running_on_worker and SparkContext._active_spark_context is None:
        return None
    path = SparkFiles.get(name)
    return path if os.path.exists(path) else None


def _combined(in_file: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Merge the file's settings with the given ones, which win; never mix their credentials."""
    left_out = _CREDENTIALS if _CREDENTIALS & given.keys() else frozenset()
    settings = {
        key: value for key, value in in_file.items() if is_security(key) and key not in left_out
    }
    return settings | dict(given)


def _named(security: Security) -> str:
    return f"{CONFIG_FILE} {security.config_file}"


class _Contexts:
    """TLS contexts by their settings, reused for a while because creating one reads files."""

    def __init__(self) -> None:
        self._kept: dict[tuple[tuple[str, str], ...], tuple[float, ssl.SSLContext | None]] = {}

    def of(self, settings: Mapping[str, str]) -> ssl.SSLContext | None:
        """Return the TLS context of these settings, None for plain text. Raises ConfigError."""
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

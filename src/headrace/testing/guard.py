"""Security of a test broker, and the settings with which each kind of client connects.

Certificates, the user and the password are created for one broker and removed with it.
"""

import datetime
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config.authentication.jaas import PLAIN_MODULE, SCRAM_MODULE
from headrace.config.installing import install_command
from headrace.config.properties import render
from headrace.model.secret import Secret

if TYPE_CHECKING:
    from headrace.server.assembly import Server

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER = "tester"
"""The superuser; with SSL it is the certificate CN=tester."""
_ITERATIONS = 4096
_HOSTS = ("localhost", "127.0.0.1", "::1")
_PRIVATE = 0o600


class ClientSettings:
    """Settings for connecting to a broker, one property per kind of client. They hold the
    password."""

    def __init__(self, bootstrap: str, guard: "Guard | None" = None) -> None:
        self._bootstrap = bootstrap
        self._guard = guard

    def __repr__(self) -> str:
        return f"ClientSettings({self._bootstrap})"

    @property
    def java(self) -> dict[str, str]:
        """Kafka's own names, for Java clients and Kafka's tools (`--command-config`)."""
        found = {"bootstrap.servers": self._bootstrap}
        guard = self._guard
        if guard is None:
            return found
        found["security.protocol"] = guard.protocol
        if guard.authority is not None:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(guard.authority),
            }
        if guard.certificate is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(guard.certificate),
            }
        if guard.by_password:
            module = PLAIN_MODULE if guard.mechanism == "PLAIN" else SCRAM_MODULE
            password = guard.password.reveal()
            found |= {
                "sasl.mechanism": guard.mechanism,
                "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
            }
        return found

    @property
    def file(self) -> Path | None:
        """Path of a properties file with these settings, readable by its owner only; None without
        security."""
        return None if self._guard is None else self._guard.write(self.java)

    @property
    def spark(self) -> dict[str, str]:
        """Options of `format("headrace")`; the secrets are in a file."""
        found = {"kafka.bootstrap.servers": self._bootstrap}
        return found if self.file is None else {**found, "configFile": str(self.file)}

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Settings of confluent-kafka and other clients based on librdkafka."""
        found: dict[str, Any] = {"bootstrap.servers": self._bootstrap}
        guard = self._guard
        if guard is None:
            return found
        found["security.protocol"] = guard.protocol
        if guard.authority is not None:
            found["ssl.ca.location"] = str(guard.authority)
        if guard.certificate is not None:
            found["ssl.certificate.location"] = str(guard.certificate)
            found["ssl.key.location"] = str(guard.certificate)
        if guard.by_password:
            found["sasl.mechanism"] = guard.mechanism
            found["sasl.username"], found["sasl.password"] = USER, guard.password.reveal()
        return found

    @property
    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python's clients."""
        found = self._keywords()
        guard = self._guard
        if guard is not None and guard.authority is not None:
            found["ssl_cafile"] = str(guard.authority)
        if guard is not None and guard.certificate is not None:
            found["ssl_certfile"] = found["ssl_keyfile"] = str(guard.certificate)
        return found

    @property
    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka's clients."""
        found = self._keywords()
        guard = self._guard
        if guard is not None and guard.authority is not None:
            context = ssl.create_default_context(cafile=str(guard.authority))
            if guard.certificate is not None:
                context.load_cert_chain(guard.certificate)
            found["ssl_context"] = context
        return found

    def _keywords(self) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap_servers": self._bootstrap}
        guard = self._guard
        if guard is not None:
            found["security_protocol"] = guard.protocol
            if guard.by_password:
                found["sasl_mechanism"] = guard.mechanism
                found["sasl_plain_username"] = USER
                found["sasl_plain_password"] = guard.password.reveal()
        return found


class Guard:
    """Security settings of one broker and the credentials that match them."""

    def __init__(self, protocol: str, mechanism: str, directory: Path) -> None:
        """Create keys and users; `directory` receives the keys and the caller removes it.

        Raises ValueError.
        """
        if protocol not in PROTOCOLS:
            raise ValueError(f"security={protocol!r}: must be one of {', '.join(PROTOCOLS)}")
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism={mechanism!r}: must be one of {', '.join(MECHANISMS)}")
        self.protocol = protocol
        self.mechanism = mechanism
        self.by_password = protocol != "SSL"
        self.password = Secret(secrets.token_urlsafe(18))
        self.authority: Path | None = None
        """Certificate of the authority that signed the broker's certificate, if it has one."""
        self.certificate: Path | None = None
        """The client's certificate with its key, if clients authenticate by certificate."""
        self._server: Path | None = None
        self._directory = directory
        if protocol != "SASL_PLAINTEXT":
            self._make_certificates()

    def _make_certificates(self) -> None:
        try:
            from headrace.posix import certificates
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "cryptography":
                raise
            raise ModuleNotFoundError(
                f"certificates are made by cryptography: {install_command('cryptography')}",
                name=error.name,
            ) from None
        now = datetime.datetime.now(datetime.UTC)
        authority = certificates.new_authority(certificates.new_key(), now)
        self.authority = self._keep("ca.pem", authority.pem)
        server = certificates.server_certificate(authority, _HOSTS, now)
        self._server = self._keep("server.pem", server)
        if not self.by_password:
            client = certificates.client_certificate(authority, USER, now)
            self.certificate = self._keep("client.pem", client)

    def _keep(self, name: str, pem: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(pem)
        return path

    def broker_settings(self) -> dict[str, str]:
        """Return the broker's settings: one listener on the loopback address and one superuser."""
        user = USER if self.by_password else f"CN={USER}"
        found = {"listeners": f"{self.protocol}://127.0.0.1:0", "super.users": f"User:{user}"}
        if self._server is not None:
            found["ssl.keystore.location"] = str(self._server)
        if self.certificate is not None:
            found["ssl.truststore.location"] = str(self.authority)
            found["ssl.client.auth"] = "required"
        if self.by_password:
            found["sasl.enabled.mechanisms"] = self.mechanism
        if self.by_password and self.mechanism == "PLAIN":
            key = f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config"
            found[key] = f'{PLAIN_MODULE} required user_{USER}="{self.password.reveal()}";'
        return found

    async def let_in(self, server: "Server") -> None:
        """Create the user if the broker stores its users itself (SCRAM). Raises ApiError."""
        if not self.by_password or self.mechanism == "PLAIN":
            return
        from headrace.cluster.settings.user_settings import Upsertion
        from headrace.security.sasl.sasl import Mechanism
        from headrace.security.sasl.scram import NUMBERS, salted

        mechanism = Mechanism(self.mechanism)
        (number,) = (number for number, found in NUMBERS.items() if found is mechanism)
        salt = secrets.token_bytes(24)
        salted_password = salted(mechanism, self.password, salt, _ITERATIONS)
        wanted = Upsertion(USER, number, _ITERATIONS, salt, salted_password)
        for error in (await server.controller.settings.users.alter((), (wanted,))).values():
            if error is not None:
                raise error

    def write(self, settings: Mapping[str, str]) -> Path:
        """Write a client's properties file and return its path. Raises OSError."""
        path = self._directory / "client.properties"
        path.touch(mode=_PRIVATE)
        path.write_text(render(settings), encoding="utf-8")
        return path

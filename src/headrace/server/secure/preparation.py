"""What `headrace serve --secure` keeps beside the data: made where it is missing, else looked at.

The files are made in this order, each whole or not at all, so that a start that ended between two
of them is completed by the next one: the authority's key, its certificate, the broker's key and
certificate, the first user's password; then, by `first_user`, the user himself and the note that
he was made.
"""

import datetime
import fcntl
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.config.broker import BrokerConfig, Source
from headrace.config.listeners import Listener
from headrace.log import file_names
from headrace.log.directory.directory_loader import make_durably
from headrace.model.errors import ConfigError
from headrace.model.secret import Secret
from headrace.posix import certificates
from headrace.posix.disk import RealDisk
from headrace.server.secure.client_files import FILES, MECHANISM, client_files

log = logging.getLogger(__name__)

USER = "admin"
AUTHORITY_KEY, AUTHORITY, BROKER = "authority.key", "authority.pem", "broker.pem"
PASSWORD, USER_MADE = "password", "user-made"
_PASSWORD_BYTES = 20
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecureDirectory:
    """The directory of a locked broker's files: its owner's alone. Blocks."""

    def __init__(self, log_dir: str) -> None:
        self.path = os.path.abspath(f"{log_dir}/{file_names.SECURE}")
        self._disk = RealDisk(None)

    def path_of(self, name: str) -> str:
        """Return a file's path."""
        return f"{self.path}/{name}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the directory for this process alone, made where it is missing. ConfigError."""
        try:
            make_durably(self._disk, os.path.dirname(self.path))
            if not os.path.lexists(self.path):
                os.mkdir(self.path, 0o700)
                self._disk.sync_directory(os.path.dirname(self.path))
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._check_owner(os.fstat(descriptor))
            yield
        finally:
            os.close(descriptor)

    def _check_owner(self, status: os.stat_result) -> None:
        open_to_others = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if status.st_uid != os.geteuid():
            raise ConfigError(
                f"{self.path}: is user {status.st_uid}'s: chown -R {os.geteuid()} {self.path}, once"
                " you know who has read it"
            )
        if open_to_others:
            raise ConfigError(
                f"{self.path}: others than its owner could use the keys in it: chmod -R go="
                f" {self.path}, or remove it and give clients the new files, where others have"
            )

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None where it is missing. ConfigError."""
        try:
            with open(self.path_of(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all, for its owner alone. ConfigError."""
        try:
            self._disk.replace(self.path_of(name), content, 0o600)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConfigError:
        where = error.filename or self.path
        return ConfigError(f"{where}: {(error.strerror or str(error)).lower()}")


class Secured:
    """What is kept of one locked broker. Blocks."""

    def __init__(self, config: BrokerConfig, host_name: str, now: datetime.datetime) -> None:
        """Make what is missing, renew what ends soon. ConfigError names damage and its remedy.

        `config` may be a draft: its listeners, what is advertised and its log directory count.
        """
        self.directory = SecureDirectory(config.log_dirs[0])
        self._names = names_of(config, host_name)
        with self.directory.held():
            self.certificate_until = self._renew(now)
            self.password = self._password()

    @property
    def authority_path(self) -> str:
        """Where the authority's certificate is: what clients trust."""
        return self.directory.path_of(AUTHORITY)

    @property
    def broker_path(self) -> str:
        """Where the broker's key and certificate are."""
        return self.directory.path_of(BROKER)

    def look(self, now: datetime.datetime) -> None:
        """Renew what ends soon. ConfigError."""
        with self.directory.held():
            self.certificate_until = self._renew(now)

    def _renew(self, now: datetime.datetime) -> datetime.datetime:
        """Make certificates that are missing or end soon; return when the broker's ends."""
        authority = self._authority(now)
        found = self.directory.read(BROKER)
        why = None
        if found is not None:
            why = certificates.why_renewed(found, authority, self._names, now)
        if found is None or why is not None:
            found = certificates.server_certificate(authority, self._names, now)
            self.directory.write(BROKER, found)
            if why is not None:
                log.warning("%s is made anew, by the same authority: %s", self.broker_path, why)
        return certificates.until(found)

    def _authority(self, now: datetime.datetime) -> certificates.Authority:
        key, certificate = self.directory.read(AUTHORITY_KEY), self.directory.read(AUTHORITY)
        if key is None and certificate is not None:
            raise self._damaged(AUTHORITY_KEY, "it is missing")
        if key is None:
            key = certificates.new_key()
            self.directory.write(AUTHORITY_KEY, key)
        try:
            if certificate is None:
                made = certificates.new_authority(key, now)
                self.directory.write(AUTHORITY, made.pem)
                return made
            authority = certificates.authority_of(key, certificate)
        except ValueError as error:
            raise self._damaged(f"{AUTHORITY_KEY} and {AUTHORITY}", str(error)) from None
        if certificates.runs_out(authority.certificate, now):
            authority = certificates.new_authority(key, now, authority)
            self.directory.write(AUTHORITY, authority.pem)
            log.warning("%s ends soon and is renewed: give it to clients anew", self.authority_path)
        return authority

    def _damaged(self, name: str, problem: str) -> ConfigError:
        return ConfigError(
            f"{self.directory.path}: {name}: {problem}; bring both files back from a backup, or"
            f" remove {AUTHORITY_KEY}, {AUTHORITY} and {BROKER}: another authority is made then,"
            " whose certificate all clients need"
        )

    # the first user

    def _password(self) -> Secret | None:
        """Return the first user's password; None: it is not kept any more."""
        found = self.directory.read(PASSWORD)
        if found is None and not self.user_made:
            found = f"{secrets.token_hex(_PASSWORD_BYTES)}\n".encode()
            self.directory.write(PASSWORD, found)
        text = "" if found is None else found.decode("utf-8", "replace").partition("\n")[0].strip()
        if found is not None and not text:
            raise ConfigError(
                f"{self.directory.path_of(PASSWORD)}: its first line is empty: write the password"
                f" of {USER} there, or remove the file"
            )
        return Secret(text) if text else None

    @property
    def user_made(self) -> bool:
        """Whether the first user was made: if he is gone since, somebody wanted that."""
        return self.directory.read(USER_MADE) is not None

    def note_user(self) -> None:
        """Note that the first user was made, durably."""
        self.directory.write(USER_MADE, f"{USER}\n".encode())

    def write_clients(self, bootstrap: str) -> None:
        """Write what clients take, where it differs; nothing without the password. ConfigError."""
        if self.password is None:
            return
        texts = client_files(bootstrap, self.authority_path, USER, self.password)
        with self.directory.held():
            for name, text in texts.items():
                if self.directory.read(name) != text.encode():
                    self.directory.write(name, text.encode())

    def facts(self) -> dict[str, object]:
        """Return what is said at the start: never a secret."""
        return {
            "user": USER,
            "authority": self.authority_path,
            "certificate_until": f"{self.certificate_until:%Y-%m-%d}",
            "clients": [self.directory.path_of(name) for name in FILES] if self.password else [],
        }

    def settings(self, draft: BrokerConfig) -> dict[str, str]:
        """Return the settings of a locked broker, over those it was given."""
        found = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker_path,
            "authorizer.class.name": draft.authorizer_class_name or _AUTHORIZER,
            "super.users": ";".join(filter(None, (draft.super_users, f"User:{USER}"))),
            "sasl.enabled.mechanisms": str(MECHANISM),
        }
        if draft.sources["sasl.enabled.mechanisms"] is not Source.DEFAULT:
            del found["sasl.enabled.mechanisms"]
        return found


def names_of(config: BrokerConfig, host_name: str) -> list[str]:
    """Return all names that clients may know the broker by."""
    told = [*config.advertised_listeners, *config.listeners]
    hosts = [
        listener.host.partition("%")[0]
        for listener in told
        if listener.host and not listener.everywhere
    ]
    return list(dict.fromkeys([host_name, *hosts, "localhost", "127.0.0.1", "::1"]))


DRAFT = {"listeners": "SASL_SSL://127.0.0.1:9092", "ssl.keystore.location": "not made yet"}
"""What stands in a configuration where nothing is given, until the certificate is there."""


def check_listeners(listeners: Sequence[Listener]) -> None:
    """Raise ConfigError where one is not locked, on this machine too."""
    for listener in listeners:
        if listener.protocol != "SASL_SSL":
            raise ConfigError(
                f"listeners={listener}: --secure opens listeners of SASL_SSL and no others: write"
                f" {listener._replace(name='SASL_SSL')}, or map {listener.name} to it by"
                " listener.security.protocol.map"
            )


def check_config(config: BrokerConfig) -> None:
    """Raise ConfigError where the first user could not come in, or others unseen."""
    if config.insecure_listeners:
        raise ConfigError("insecure.listeners=true: --secure and --insecure: say one of them")
    for name, listener in config.sasl.items():
        if MECHANISM not in listener.mechanisms:
            raise ConfigError(
                f"sasl.enabled.mechanisms={','.join(listener.mechanisms)}: the first user comes by"
                f" {MECHANISM}: listener {name} must take that, too"
            )


def check_given(draft: BrokerConfig) -> None:
    """Raise ConfigError where what was given is for another kind of broker."""
    if draft.zookeeper_connect is not None:
        raise ConfigError(
            "zookeeper.connect: --secure is for a broker by itself; a cluster's brokers need one"
            " authority for all, and its listeners set up as docs/security-tls.md says"
        )
    for name, value in draft.values.items():
        if "ssl.keystore." in name and value is not None and value != DRAFT.get(name):
            raise ConfigError(
                f"{name}: --secure makes the certificate itself: leave one of them out"
            )

"""The files of `headrace serve --secure` next to the data: created if missing, renewed, checked.

Each file is written atomically, in this order, so that the next start completes one that was
interrupted between two of them: the authority's key, its certificate, the broker's key and
certificate, the first user's password; then, by `first_user`, the user and the note `user-made`.
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
"""Kafka's class name of the authorizer, for `authorizer.class.name`."""


class SecureDirectory:
    """The directory of the files of `--secure`, readable by its owner only. Blocks."""

    def __init__(self, log_dir: str) -> None:
        self.path = os.path.abspath(f"{log_dir}/{file_names.SECURE}")
        self._disk = RealDisk(None)

    def path_of(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return f"{self.path}/{name}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the directory (flock), creating it if missing, until the block ends.

        Raises ConfigError.
        """
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
        """Raise ConfigError unless this user owns the directory and no other can open it."""
        open_to_others = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if status.st_uid != os.geteuid():
            raise ConfigError(
                f"{self.path}: is user {status.st_uid}'s: chown -R {os.geteuid()} {self.path}, once"
                " you know who has read it"
            )
        if open_to_others:
            raise ConfigError(
                f"{self.path}: other users can read the keys in it: chmod -R go= {self.path}; if"
                " others have read them, remove the directory and give clients the new files"
            )

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if it is missing. ConfigError: it cannot be read."""
        try:
            with open(self.path_of(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically, with mode 0600. Raises ConfigError."""
        try:
            self._disk.replace(self.path_of(name), content, 0o600)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConfigError:
        where = error.filename or self.path
        return ConfigError(f"{where}: {(error.strerror or str(error)).lower()}")


class Secured:
    """The certificates, password and client files of one `--secure` broker. Blocks."""

    def __init__(self, config: BrokerConfig, host_name: str, now: datetime.datetime) -> None:
        """Create missing files and renew certificates about to expire.

        ConfigError: a file is damaged.

        The error names the remedy. `config` may be a draft: only its listeners, advertised
        listeners and first log directory are used.
        """
        self.directory = SecureDirectory(config.log_dirs[0])
        self._names = names_of(config, host_name)
        with self.directory.held():
            self.certificate_until = self._renew(now)
            self.password = self._password()

    @property
    def authority_path(self) -> str:
        """Path of the authority's certificate, which clients must trust."""
        return self.directory.path_of(AUTHORITY)

    @property
    def broker_path(self) -> str:
        """Path of the broker's key and certificate."""
        return self.directory.path_of(BROKER)

    def look(self, now: datetime.datetime) -> None:
        """Renew certificates of `--secure` that are about to expire. Raises ConfigError."""
        with self.directory.held():
            self.certificate_until = self._renew(now)

    def _renew(self, now: datetime.datetime) -> datetime.datetime:
        """Create or renew certificates that are missing or about to expire.

        Return the broker's expiry.
        """
        authority = self._authority(now)
        found = self.directory.read(BROKER)
        why = None
        if found is not None:
            why = certificates.why_renewed(found, authority, self._names, now)
        if found is None or why is not None:
            found = certificates.server_certificate(authority, self._names, now)
            self.directory.write(BROKER, found)
            if why is not None:
                log.warning(
                    "the broker's certificate %s was renewed by the same authority: %s",
                    self.broker_path, why,
                )  # fmt: skip
        return certificates.until(found)

    def _authority(self, now: datetime.datetime) -> certificates.Authority:
        """Return the authority: loaded, created if missing, or renewed with the same key."""
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
            log.warning(
                "the authority's certificate %s was about to expire and has been renewed: give the"
                " new file to all clients", self.authority_path,
            )  # fmt: skip
        return authority

    def _damaged(self, name: str, problem: str) -> ConfigError:
        """Return the ConfigError for damaged authority files, with the remedy."""
        return ConfigError(
            f"{self.directory.path}: {name}: {problem}; bring both files back from a backup, or"
            f" remove {AUTHORITY_KEY}, {AUTHORITY} and {BROKER}: another authority is made then,"
            " whose certificate all clients need"
        )

    # the first user

    def _password(self) -> Secret | None:
        """Return the first user's password.

        None if its file was removed after the user was created.

        ConfigError: the file's first line is empty.
        """
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
        """Whether the first user was created once.

        If the user is missing now, it was deleted on purpose and is not created again.
        """
        return self.directory.read(USER_MADE) is not None

    def note_user(self) -> None:
        """Record durably that the first user of `--secure` was created."""
        self.directory.write(USER_MADE, f"{USER}\n".encode())

    def write_clients(self, bootstrap: str) -> None:
        """Write the client files that differ; none without the password. Raises ConfigError."""
        if self.password is None:
            return
        texts = client_files(bootstrap, self.authority_path, USER, self.password)
        with self.directory.held():
            for name, text in texts.items():
                if self.directory.read(name) != text.encode():
                    self.directory.write(name, text.encode())

    def facts(self) -> dict[str, object]:
        """Return what the start prints: user, paths, expiry; no secret."""
        return {
            "user": USER,
            "authority": self.authority_path,
            "certificate_until": f"{self.certificate_until:%Y-%m-%d}",
            "clients": [self.directory.path_of(name) for name in FILES] if self.password else [],
        }

    def settings(self, draft: BrokerConfig) -> dict[str, str]:
        """Return the settings that `--secure` adds to those given."""
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
    """Return all host names and addresses by which clients may connect: the certificate's names."""
    told = [*config.advertised_listeners, *config.listeners]
    hosts = [
        listener.host.partition("%")[0]
        for listener in told
        if listener.host and not listener.everywhere
    ]
    return list(dict.fromkeys([host_name, *hosts, "localhost", "127.0.0.1", "::1"]))


DRAFT = {"listeners": "SASL_SSL://127.0.0.1:9092", "ssl.keystore.location": "not made yet"}
"""Default settings before the certificate exists, so that the configuration can be read."""


def check_listeners(listeners: Sequence[Listener]) -> None:
    """Raise ConfigError if a listener's protocol is not SASL_SSL, on the loopback interface too."""
    for listener in listeners:
        if listener.protocol != "SASL_SSL":
            raise ConfigError(
                f"listeners={listener}: --secure opens listeners of SASL_SSL and no others: write"
                f" {listener._replace(name='SASL_SSL')}, or map {listener.name} to it by"
                " listener.security.protocol.map"
            )


def check_config(config: BrokerConfig) -> None:
    """Raise ConfigError for `insecure.listeners`, or a listener that lacks the user's mechanism."""
    if config.insecure_listeners:
        raise ConfigError("insecure.listeners=true: --secure and --insecure: say one of them")
    for name, listener in config.sasl.items():
        if MECHANISM not in listener.mechanisms:
            raise ConfigError(
                f"sasl.enabled.mechanisms={','.join(listener.mechanisms)}: the first user comes by"
                f" {MECHANISM}: listener {name} must take that, too"
            )


def check_given(draft: BrokerConfig) -> None:
    """Raise ConfigError for settings that --secure cannot have: ZooKeeper, keystores of its own."""
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

"""Certificates for tests, made by the command `openssl` when they are asked for."""

import subprocess
from pathlib import Path
from typing import NamedTuple

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Certificate(NamedTuple):
    """Files in PEM."""

    key: Path
    chain: Path
    both: Path

    def pkcs12(self, password: str, authorities: Path | None = None) -> Path:
        """Return a PKCS12 store of it."""
        store = self.both.with_suffix(".p12")
        extra = () if authorities is None else ("-certfile", str(authorities))
        _openssl("pkcs12", "-export", "-inkey", self.key, "-in", self.chain, "-out", store,
                 "-passout", f"pass:{password}", *extra)  # fmt: skip
        return store

    def encrypted_key(self, password: str) -> Path:
        """Return its key as PEM, encrypted."""
        encrypted = self.key.with_suffix(".encrypted.pem")
        _openssl("pkcs8", "-topk8", "-in", self.key, "-out", encrypted,
                 "-passout", f"pass:{password}")  # fmt: skip
        return encrypted


class Authority:
    """Signs certificates in a directory of the test's."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = name
        self._key = directory / f"{name}.key"
        self.certificate = directory / f"{name}.pem"
        """What who trusts it has."""
        _openssl("req", "-x509", *_CURVE, "-keyout", self._key, "-out", self.certificate,
                 "-days", "30", "-subj", f"/CN={name}")  # fmt: skip

    def sign(
        self,
        name: str = "server",
        subject: str = "/CN=localhost",
        alternatives: str = "DNS:localhost,IP:127.0.0.1",
        days: int = 30,
    ) -> Certificate:
        """Return a new key and its certificate."""
        stem = self._directory / f"{self._name}-{name}"
        key, request, chain = (stem.with_suffix(end) for end in (".key", ".csr", ".crt"))
        extensions = stem.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={alternatives}\n")
        _openssl("req", *_CURVE, "-keyout", key, "-out", request, "-subj", subject, "-utf8",
                 "-multivalue-rdn")  # fmt: skip
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                 "-CAcreateserial", "-days", str(days), "-extfile", extensions,
                 "-out", chain)  # fmt: skip
        both = stem.with_suffix(".pem")
        both.write_text(key.read_text() + chain.read_text())
        return Certificate(key, chain, both)


def _openssl(*words: "str | Path") -> None:
    done = subprocess.run(
        ["openssl", *map(str, words)], capture_output=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr.decode()


OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings with which whoever comes by TLS may do everything."""

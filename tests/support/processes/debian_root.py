"""A bare Debian in a directory, made by debootstrap, with this machine's way to its packages."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

SUITE, TESTING = "trixie", "forky"
"""Debian 13, and what becomes 14."""
MIRROR = "http://deb.debian.org/debian"
SCRIPT = "/usr/share/debootstrap/scripts/sid"
"""How every Debian is made: an older debootstrap does not know the newest by name."""
CONFIGURATION = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/apt/apt.conf.d")
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/usr/local/share/ca-certificates")


def make_bare(place: Path, program: str, suite: str = SUITE) -> None:
    """Make the bare system of a suite, once: what debootstrap made is copied for each run.

    SystemExit, in the words of `program`, where debootstrap is not installed.
    """
    if (place / "etc" / "debian_version").exists():
        return
    if shutil.which("debootstrap") is None:
        raise SystemExit(f"{program}: debootstrap is not installed: apt-get install debootstrap")
    place.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, str(place)]
    command += [MIRROR, SCRIPT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def copy_bare(bare: Path, root: Path) -> None:
    """Copy the bare system to `root`, in place of what is there, able to reach its packages."""
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", bare, root], check=True)
    (root / "tmp").chmod(0o1777)
    _configure(root)


def _configure(root: Path) -> None:
    own = [os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if name in os.environ]
    pip = Path("/etc/pip.conf")
    if pip.exists():
        settings = configparser.ConfigParser()
        settings.read(pip)
        own += [settings["global"]["cert"]] if settings.has_option("global", "cert") else []
    for name in (*CONFIGURATION, *CERTIFICATES, *own):
        source, target = Path(name), root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)

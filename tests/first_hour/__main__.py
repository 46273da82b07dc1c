"""README's first hour on a bare Debian: `make first-hour`, or `python -m tests.first_hour`.

A root of Debian 13 made by debootstrap gets a copy of this tree, python3 and make, and the
machine's own configuration of apt and pip, nothing else. README's blocks are then run in it one
after the other, those too that `make docs-test` only shows. What a reader would see is written to
out/first_hour.txt: that each block ends well is judged here, that it is friendly by who reads it.
Needs root, debootstrap and a network. Status 1 where a block failed.
"""

import argparse
import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.processes import ROOT

SUITE = "trixie"
"""Debian 13."""
OUT = ROOT / "out"
CONFIGURATION = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/apt/apt.conf.d")
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/usr/local/share/ca-certificates")


def _bare(place: Path) -> None:
    """Make the bare system, once: what debootstrap made is copied for each run."""
    if (place / "etc" / "debian_version").exists():
        return
    if shutil.which("debootstrap") is None:
        raise SystemExit("first-hour: debootstrap is not installed: apt-get install debootstrap")
    place.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(place)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _configure(root: Path) -> None:
    """Give it the machine's way to its packages."""
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


def main() -> int:
    """Make the root and walk through README in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=OUT / "debian", help="the bare system")
    parser.add_argument("--keep", action="store_true", help="keep the root that was used")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("first-hour: a root of its own is made and entered: run it as root")
    OUT.mkdir(exist_ok=True)
    _bare(arguments.base)
    root = OUT / "first_hour_root"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", arguments.base, root], check=True)
    _configure(root)
    walk = [sys.executable, "-m", "tests.first_hour.walk", str(root), str(OUT / "first_hour.txt")]
    try:
        # With the last process in them what was mounted and started is gone.
        within = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.run([*within, *walk], cwd=ROOT, check=False).returncode
    finally:
        if not arguments.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

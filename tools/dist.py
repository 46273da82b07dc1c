"""Write the wheel and the sdist of the last commit to dist/: the same bytes each time.

python tools/dist.py [--out DIRECTORY] [--head]

The build's inputs are the commit's files, the setuptools of the running environment (make setup-dev
installs the version of constraints.txt) and the commit's time. Uncommitted changes are refused, as
they would be missing in the packages; with --head the last commit is built in spite of them.
"""

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXECUTABLE, PLAIN = 0o755, 0o644
UMASK = 0o022


def build(root: Path, out: Path) -> list[Path]:
    """Build the last commit of the checkout `root`; return the paths of the sdist and the wheel."""
    epoch = int(_git(root, "log", "-1", "--format=%ct"))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-dist-") as place:
        source, built, home = (Path(place) / name for name in ("source", "built", "home"))
        home.mkdir()
        archive = subprocess.run(
            ["git", "archive", "--format=tar", "HEAD"], cwd=root, check=True, capture_output=True
        )
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(source, filter="data")
        # The wheel's modes follow the umask, its times the epoch; the caller's must not count.
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC",
            "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "TMPDIR": place,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "-o", str(built), str(source)],
            env=environment, umask=UMASK, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"dist: the build failed:\n{done.stdout}{done.stderr}")
        (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
        packages = [out / sdist.name, out / wheel.name]
        packages[0].write_bytes(_normalised(sdist, epoch))
        packages[1].write_bytes(wheel.read_bytes())
    return packages


def _normalised(sdist: Path, epoch: int) -> bytes:
    """Return the sdist, its files sorted and without the builder's user, modes and times."""
    packed = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            mode = EXECUTABLE if member.isdir() or member.mode & 0o100 else PLAIN
            plain = member.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
            plain.pax_headers = {}
            new.addfile(plain, old.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> int:
    """Build the packages and print their names, sizes and digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--head", action="store_true", help="build in spite of uncommitted changes")
    arguments = parser.parse_args()
    try:
        changed = _git(ROOT, "status", "--porcelain", "--untracked-files=no")
    except (subprocess.CalledProcessError, FileNotFoundError):
        print("dist: this is not a git checkout: packages are built from a commit", file=sys.stderr)
        return 2
    if changed and not arguments.head:
        print(f"dist: commit or stash first:\n{changed}", file=sys.stderr)
        return 2
    for path in build(ROOT, arguments.out):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path}  {path.stat().st_size:,} bytes  sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Execute every block of README and docs: `make docs-test`, or `python -m tests.docs [PAGE …]`.

Each page is run in a directory and in namespaces of its own (tests/docs/page.py); what its marks
mean is told in tests/docs/blocks.py. At the end the site is built with its links checked. Status 1
where a block or a link is wrong. `--quick` leaves out what needs Spark, ZooKeeper or minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos.namespaces import NoNamespaces, enclosed
from tests.docs.blocks import PageError, read
from tests.docs.processes import ROOT, TOOLS


def pages() -> list[Path]:
    """The pages whose blocks are run: what users read; not the record of decisions."""
    examples = sorted((ROOT / "examples").glob("*/README.md"))
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *examples]


def command(path: Path, *options: str) -> list[str]:
    """How a page is run: where the loopback's ports are free, if this machine allows that."""
    plain = [sys.executable, "-m", "tests.docs.page", *options, str(path)]
    lo = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        return enclosed([*lo, *plain])
    except NoNamespaces as error:
        print(f"docs-test: without namespaces ({error}): ports 9092 to 9094 must be free")
        return plain


def _fetch(path: Path, *, quick: bool) -> None:
    """Fetch what the page needs from outside: where it runs there is no network but its own."""
    try:
        page = read(path.name, path.read_text("utf-8"))
    except PageError:
        return  # told by whoever runs it
    if "zookeeper" in page.services and not quick:
        from tests.outside.kafka_reads_our_files.jvm import libraries
        from tests.support.zookeeper import PROJECT

        libraries(PROJECT)


def _site_is_sound() -> bool:
    """Build the site, every warning an error."""
    with tempfile.TemporaryDirectory(prefix="headrace-site-") as place:
        build = [str(TOOLS / "mkdocs"), "build", "--strict", "--quiet", "--site-dir", place]
        done = subprocess.run(
            build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    print(f"site: {'links hold' if done.returncode == 0 else 'WRONG'}")
    print(done.stdout + done.stderr if done.returncode else "", end="")
    return done.returncode == 0


def main() -> int:
    """Run the pages that are named, or all and the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--quick", action="store_true", help="without the slow sets")
    arguments = parser.parse_args()
    if shutil.which("bash") is None:
        parser.error("bash is not installed: blocks are run by it")
    wrong = []
    for path in [page.absolute() for page in arguments.pages] or pages():
        _fetch(path, quick=arguments.quick)
        options = ["--quick"] * arguments.quick
        if subprocess.run(command(path, *options), cwd=ROOT, check=False).returncode:
            wrong.append(path.name)
    if not arguments.pages and not _site_is_sound():
        wrong.append("the site")
    print(f"docs-test: {'wrong: ' + ', '.join(wrong) if wrong else 'all that is said holds'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""A release tried as its users have it: `make dist-test`, or `python -m tests.release`.

The packages of the last commit are built, and installed in an empty environment of each Python;
then the claims of tests/release/trial.py are tried there, and a table lists which hold. Needs a
package index (or PIP_FIND_LINKS) and takes about ten minutes, most of them for Spark. Status 1 if a
claim fails, 2 if a Python is missing.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.docs.processes import ROOT
from tests.release.pythons import NoPython, find
from tests.release.trial import CLAIMS, NEEDED, Claim, Failed, Packages, Trial

PYTHONS = "3.11 3.13"
"""The oldest that is promised, and the newest with wheels of all dependencies."""
NOT_TRIED = "not tried"


def build(out: Path, *options: str) -> Packages:
    """Build the packages of the last commit by tools/dist.py."""
    command = [sys.executable, str(ROOT / "tools" / "dist.py"), "--out", str(out), *options]
    subprocess.run(command, check=True)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Packages(sdist, wheel)


def tried(interpreter: Path, packages: Packages, claims: Sequence[Claim]) -> list[str]:
    """Try the claims with one Python; return what the table says of each."""
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="headrace-release-") as place:
        trial = Trial(interpreter, Path(place), packages)
        for claim in claims:
            began = time.monotonic()
            try:
                claim(trial)
            except Failed as error:
                outcomes.append("FAILED")
                print(f"  {_name(claim)}: FAILED: {error}", flush=True)
                if claim in NEEDED:
                    break
            else:
                outcomes.append(f"held, {time.monotonic() - began:.0f} s")
                print(f"  {_name(claim)}: {outcomes[-1]}", flush=True)
    return outcomes + [NOT_TRIED] * (len(claims) - len(outcomes))


def _name(claim: Claim) -> str:
    return claim.__name__.replace("_", " ")


def main() -> int:
    """Build, try, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", default=PYTHONS, help=f'versions; default "{PYTHONS}"')
    parser.add_argument("--base", action="store_true", help="without extras: no Spark, no tables")
    parser.add_argument("--head", action="store_true", help="build in spite of uncommitted changes")
    arguments = parser.parse_args()
    try:
        interpreters = find(arguments.pythons.split())
    except NoPython as error:
        print(f"dist-test: {error}", file=sys.stderr)
        return 2
    claims = CLAIMS[: CLAIMS.index(Trial.extras_install)] if arguments.base else CLAIMS
    table: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-packages-") as out:
        packages = build(Path(out), *["--head"] * arguments.head)
        for version, interpreter in interpreters.items():
            print(f"dist-test: Python {version}: {interpreter}", flush=True)
            table[version] = tried(interpreter, packages, claims)
    print(f"\n{'':36}" + "".join(f"Python {version:12}" for version in table))
    for row, claim in enumerate(claims):
        print(f"{_name(claim):36}" + "".join(f"{table[version][row]:19}" for version in table))
    failed = sum(not outcome.startswith("held") for column in table.values() for outcome in column)
    print(f"dist-test: {f'{failed} DO NOT HOLD' if failed else 'all holds'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

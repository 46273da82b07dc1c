"""The programs in other languages: fetched and built by Maven, javac, Go and npm where missing."""

import shutil
import subprocess
from pathlib import Path

from tests.outside.kafka_reads_our_files.jvm import NoJvm, java, libraries

PROGRAMS = Path(__file__).parents[1] / "clients"


class Missing(Exception):
    """A program that is needed is not installed, or what it needs cannot be had."""


class NotInstalled(Missing):
    """A language is not here at all."""


def _needed(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise NotInstalled(f"{program} is not installed")


def _build(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(command[:3])}: {(done.stdout + done.stderr)[-3000:]}")


def java_classes(place: Path = PROGRAMS / "java") -> Path:
    """The compiled programs beside a pom. Missing."""
    _needed("java", "javac", "mvn")
    try:
        jars = libraries(place)
    except (NoJvm, subprocess.CalledProcessError) as error:
        raise Missing(str(error)) from error
    classes = place / "target" / "classes"
    sources = sorted(place.glob("*.java"))
    newest = max(one.stat().st_mtime for one in sources)
    made = classes / f"{sources[-1].stem}.class"
    if not made.exists() or made.stat().st_mtime < newest:
        _build(["javac", "-d", str(classes), "-cp", jars, *map(str, sources)], place)
    return classes


def java_program(name: str, megabytes: int = 256, place: Path = PROGRAMS / "java") -> list[str]:
    """The command line of a class beside a pom, compiled. Missing."""
    classes = java_classes(place)
    return java(place, megabytes, "-cp", f"{classes}:{libraries(place)}", name)


def go_program(place: Path = PROGRAMS / "go") -> list[str]:
    """The command line of a module of Go, built. Missing."""
    _needed("go")
    program = place / "target" / "scenarios"
    _build(["go", "build", "-o", str(program), "."], place)
    return [str(program)]


def node_program(place: Path = PROGRAMS / "node") -> list[str]:
    """The command line of scenarios.js beside a package.json, its packages installed. Missing."""
    _needed("node", "npm")
    done = place / "node_modules" / ".package-lock.json"  # npm's last act
    if not done.exists() or done.stat().st_mtime < (place / "package.json").stat().st_mtime:
        flags = ["--no-audit", "--no-fund", "--no-package-lock"]
        _build(["npm", "install", *flags], place)
    return ["node", str(place / "scenarios.js")]

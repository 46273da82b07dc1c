"""RocketMQ's Java clients, fetched by Maven, and the programs that use them, compiled."""

import shutil
import subprocess
from pathlib import Path

import pytest

JAVA = Path(__file__).parent / "java"
CLIENTS = ("5.5.0", "4.9.7")
JVM = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session", params=CLIENTS)
def classes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of a version of the client and of the programs."""
    if not (shutil.which("mvn") and shutil.which("javac")):
        pytest.skip("needs Maven and a JDK")
    libs = JAVA / "target" / request.param
    if not libs.exists():
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-Dclient={request.param}"],
            cwd=JAVA, check=True, timeout=600,
        )  # fmt: skip
    made = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        ["javac", "-nowarn", "-d", made, "-cp", f"{libs}/*", *sorted(JAVA.glob("*.java"))],
        check=True, timeout=300,
    )  # fmt: skip
    return f"{made}:{libs}/*"

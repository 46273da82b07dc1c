"""RocketMQ's Java programs: fetched by Maven, compiled, and run by a small JVM."""

import shutil
import subprocess
import tempfile
from pathlib import Path

JAVA = Path(__file__).parent / "java"
JVM = (
    "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    # Also on a busy machine.
    "-Dcom.rocketmq.remoting.client.connect.timeout=20000",
)  # fmt: skip


def has_maven() -> bool:
    """Return whether Maven and a JDK are installed."""
    return bool(shutil.which("mvn") and shutil.which("javac"))


def libraries(version: str, pom: str = "pom.xml") -> Path:
    """Return the folder of a version's libraries, fetched if they are missing."""
    folder = JAVA / "target" / f"{Path(pom).stem}-{version}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        # Under another name until it is complete; another process may fetch it, too.
        part = Path(tempfile.mkdtemp(prefix="fetching-", dir=folder.parent))
        subprocess.run(
            [
                "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
                f"-Dclient={version}", f"-Dlibs={part}",
            ],
            cwd=JAVA, check=True, timeout=900,
        )  # fmt: skip
        try:
            part.rename(folder)
        except OSError:
            shutil.rmtree(part)
    return folder


def compiled(into: Path, libs: Path, *sources: str) -> str:
    """Compile programs into a folder; return the class path."""
    subprocess.run(
        ["javac", "-nowarn", "-d", into, "-cp", f"{libs}/*", *(JAVA / each for each in sources)],
        check=True, timeout=300,
    )  # fmt: skip
    return f"{into}:{libs}/*"

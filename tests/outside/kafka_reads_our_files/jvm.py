"""Apache Kafka's own programs: fetched by Maven, run as processes, ended with the test."""

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KAFKA_4 = HERE.parents[2] / "bench" / "peers" / "kafka"
KAFKA_3 = HERE / "kafka-3.9"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
UTF_8 = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
DUMP_CLASS = "org.apache.kafka.tools.DumpLogSegments"


class NoJvm(Exception):
    """There is no Java or no Maven here."""


def libraries(project: Path) -> str:
    """The class path of a pom's jars, fetched where they are missing. NoJvm."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoJvm(f"{program} is not installed: the judge is Apache Kafka itself")
    jars = project / "target" / "libs"
    jars.parent.mkdir(exist_ok=True)
    with jars.with_name("fetching.lock").open("w") as lock:
        # Processes of one test run, and threads of one process, need them at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            # Under another name until all are there: a fetch that is cut short is begun anew.
            part = jars.with_name("fetching")
            copy = ["dependency:copy-dependencies", f"-Dlibs={part}"]
            subprocess.run(["mvn", "-q", "-B", *copy], cwd=project, check=True)
            part.rename(jars)
    return f"{jars}/*"


def java(project: Path, megabytes: int, *arguments: str) -> list[str]:
    """A command line; `arguments` begin with the class to run or options before it."""
    command = ["java", f"-Xmx{megabytes}m", *QUICK, *UTF_8, QUIET, "-cp", libraries(project)]
    return [*command, *arguments]


@dataclass(frozen=True)
class Dumped:
    """What a dump printed."""

    status: int
    out: bytes
    remarks: list[bytes]
    """Lines of standard error, sorted: Kafka's order is that of a hash table."""


def run_dump(
    command: Sequence[str], files: Sequence[str], flags: Sequence[str], cwd: Path
) -> Dumped:
    """Run a dump program over files named as they are seen from `cwd`."""
    result = subprocess.run(
        [*command, *flags, "--files", ",".join(files)], cwd=cwd, capture_output=True, check=False
    )
    return Dumped(result.returncode, result.stdout, sorted(result.stderr.splitlines()))


def kafka_dump(files: Sequence[str], flags: Sequence[str], cwd: Path) -> Dumped:
    """Kafka 4.3.1's DumpLogSegments."""
    return run_dump(java(KAFKA_4, 1024, DUMP_CLASS), files, flags, cwd)

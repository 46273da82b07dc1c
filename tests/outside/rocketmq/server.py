"""RocketMQ's own name server and broker, in a network namespace of their own."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "127.0.0.1:9876"
"""Of the name server, within the namespace."""
_JVM = (
    "java", "-server", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m",
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Dcom.rocketmq.broker.diskSpaceWarningLevelRatio=0.99",
)  # fmt: skip
_LOGBACK = """<configuration><appender name="f" class="ch.qos.logback.core.FileAppender">
<file>{file}</file><encoder><pattern>%d %-5p %c{{0}} %m%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="f"/></root></configuration>
"""
_BROKER = """brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
listenPort=10911
haListenPort=10912
namesrvAddr=127.0.0.1:9876
storePathRootDir={store}
storePathCommitLog={store}/commitlog
mappedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=20000
flushDiskType=ASYNC_FLUSH
transactionCheckInterval=4000
transactionTimeOut=2000
"""
_START_SECONDS, _STOP_SECONDS = 90.0, 60.0


def can_run() -> bool:
    """Return whether this machine has the programs for a namespace."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    tried = subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True, check=False)
    return tried.returncode == 0


class RealBroker:
    """A running name server and broker; `run` starts a program that reaches them."""

    def __init__(self, libs: Path, folder: Path, holder: "subprocess.Popen[bytes]") -> None:
        self.store = folder / "store"
        self._libs = libs
        self._folder = folder
        self._enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        self._servers: list[subprocess.Popen[bytes]] = []

    def run(self, words: Sequence[str], seconds: float) -> str:
        """Return the output of a program in the namespace, which must succeed."""
        done = subprocess.run(
            [*self._enter, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def start(self) -> None:
        """Start both servers and wait until they serve."""
        conf = self._folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for name in ("broker", "namesrv", "tools"):
            log = _LOGBACK.format(file=self._folder / f"{name}.log")
            (conf / f"logback_{name}.xml").write_text(log)
            (conf / f"rmq.{name}.logback.xml").write_text(log)
        (conf / "broker.conf").write_text(_BROKER.format(store=self.store))
        names = f"kvConfigPath={self._folder}/kv.json\nconfigStorePath={self._folder}/names\n"
        (conf / "namesrv.conf").write_text(f"listenPort=9876\n{names}")
        self._start("namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup", "96m")
        self._start("broker", "org.apache.rocketmq.broker.BrokerStartup", "256m", "-n", ADDRESS)

    def _start(self, name: str, main: str, heap: str, *more: str) -> None:
        home = self._folder
        out = home / f"{name}.out"
        words = [
            *self._enter, "env", f"ROCKETMQ_HOME={home}", *_JVM, f"-Xmx{heap}",
            f"-Duser.home={home}", f"-Drocketmq.home.dir={home}",
            f"-Drmq.logback.configurationFile={home}/conf/logback_{name}.xml",
            "-cp", f"{self._libs}/*", main, "-c", f"{home}/conf/{name}.conf", *more,
        ]  # fmt: skip
        with out.open("ab") as file:
            server = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )
        self._servers.append(server)
        deadline = time.monotonic() + _START_SECONDS
        while "boot success" not in out.read_text():
            assert server.poll() is None, out.read_text()[-4000:]
            assert time.monotonic() < deadline, out.read_text()[-4000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop both servers as an operator does, the broker first."""
        while self._servers:
            server = self._servers.pop()
            server.terminate()
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise


@contextmanager
def real_broker(libs: Path, folder: Path) -> Iterator[RealBroker]:
    """Run RocketMQ's servers with these libraries and their files in a folder."""
    up = "ip link set lo up && echo up && exec sleep 100000"
    with subprocess.Popen(["unshare", "--net", "sh", "-c", up], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        broker = RealBroker(libs, folder, holder)
        try:
            assert holder.stdout.readline() == b"up\n"
            broker.start()
            yield broker
        finally:
            broker.stop()
            holder.kill()

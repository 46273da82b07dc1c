"""An empty network namespace: programs in it reach each other by its loopback, and nothing else."""

import shutil
import subprocess

from tests.support.processes.process import Host, StartsAndStops

_UP = "ip link set lo up && echo up && exec cat"


def can_run() -> bool:
    """Return whether this machine has the programs for a namespace, and allows it."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    tried = subprocess.run(["unshare", "--net", "ip", "link"], capture_output=True, check=False)
    return tried.returncode == 0


class NetworkNamespace(StartsAndStops):
    """A namespace, held by a process that ends with this one."""

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> Host:
        """Its loopback."""
        assert self._holder is not None
        return Host(within=("nsenter", f"--net=/proc/{self._holder.pid}/ns/net"))

    def start(self) -> None:
        """Make it; its loopback is up."""
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", _UP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"

    def stop(self) -> None:
        """End its holder; the kernel deletes it with its last process."""
        assert self._holder is not None
        self._holder.communicate()

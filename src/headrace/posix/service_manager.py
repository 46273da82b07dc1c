"""`ServiceManager`: notify systemd that the broker is ready, alive or stopping (sd_notify(3)).

Sends datagrams of `NAME=value` lines to the socket that NOTIFY_SOCKET names.
"""

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping

log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that started this process, if any. For the loop."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Take the manager's variables out of `environ`, so that child processes do not use
        them."""
        address = environ.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.alive_seconds = _alive_seconds(environ)
        """Seconds between watchdog notifications; None if the manager does not want them."""
        self._timer: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None

    def ready(self, status: str) -> None:
        """Notify that requests are accepted, and start the watchdog notifications."""
        self._tell(f"READY=1\nSTATUS={status}")
        if self.alive_seconds is not None:
            self._stay_alive(self.alive_seconds)

    def stopping(self) -> None:
        """Notify that the process has begun to stop."""
        self._tell("STOPPING=1")

    def close(self) -> None:
        """Stop the timer and close the notification socket."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _stay_alive(self, seconds: float) -> None:
        # On the loop's own timer: a loop that hangs sends no notification.
        self._tell("WATCHDOG=1")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._stay_alive, seconds)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(
                    socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
                )
            self._socket.sendto(text.encode(), socket.MSG_DONTWAIT, self._address)
        except BlockingIOError:
            return  # its queue is full; it gets the next notification
        except OSError as problem:
            log.warning(
                "cannot notify the service manager at NOTIFY_SOCKET=%s (%s); if it waits for this"
                " broker to be ready, set Type=simple or repair the socket",
                self._address.replace("\0", "@"), (problem.strerror or str(problem)).lower(),
            )  # fmt: skip
            self._address = ""


def _alive_seconds(environ: MutableMapping[str, str]) -> float | None:
    """Return half of the manager's watchdog timeout, as sd_watchdog_enabled(3) advises, or None."""
    microseconds, process = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
    if not microseconds.isdigit() or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None
    return int(microseconds) / 2e6

"""The client's side of a broker's Unix socket for administration."""

import errno
import os
import socket
import struct

FILE_NAME = "admin.sock"
"""The socket's file name in the broker's first log directory."""
ROOT = 0
_CREDENTIALS = struct.Struct("3i")


def open_local_socket(path: str, seconds: float) -> socket.socket:
    """Connect to the Unix socket `path`, or to the one in log directory `path`. Raises OSError.

    The listening process must run as the directory's owner, this process's user or root; any other
    user has replaced the socket by one of their own.
    """
    if os.path.isdir(path):
        path = os.path.join(path, FILE_NAME)
    # Connect by the directory's descriptor: a socket path is limited to 107 bytes.
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(data)
        if uid not in {ROOT, os.geteuid(), os.fstat(directory).st_uid}:
            raise OSError(errno.EPERM, f"user id {uid} listens there, not the directory's owner")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection

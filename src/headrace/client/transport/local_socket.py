"""A client's end of a broker's Unix socket for administration."""

import errno
import os
import socket
import struct

FILE_NAME = "admin.sock"
"""What it is called in a broker's first log directory."""
ROOT = 0
_CREDENTIALS = struct.Struct("3i")


def open_local_socket(path: str, seconds: float) -> socket.socket:
    """Connect to the socket `path`, or to the one in the log directory `path`; OSError.

    Whoever listens there must be the owner of its directory, this process's user or root: another
    has put a socket of his own in its place.
    """
    if os.path.isdir(path):
        path = os.path.join(path, FILE_NAME)
    # By the directory's descriptor: a socket's path may have 107 bytes, a directory's more.
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(data)
        if uid not in {ROOT, os.geteuid(), os.fstat(directory).st_uid}:
            raise OSError(errno.EPERM, f"user id {uid} listens there, who is not its owner")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection

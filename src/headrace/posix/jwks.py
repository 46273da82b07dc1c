"""The keys that tokens are signed with, as bytes: from a file, or over https. Blocks.

Certificates and host names are always verified, by the system's authorities (SSL_CERT_FILE names
others), redirections are never followed, proxies never used. What was answered is in no error.
"""

import http.client
import socket
import ssl
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Timer
from urllib.parse import urlsplit

from headrace.model.errors import HeadraceError

STEP_SECONDS_MAX = 5.0
"""How long one step of an exchange may take."""
FETCH_SECONDS_MAX = 10.0
"""How long an answer may take from the request to its end."""


class JwksUnavailable(HeadraceError):
    """No keys could be read; the text names the cause and quotes nothing."""


def read_file(path: str, bytes_max: int) -> bytes:
    """Return what is in a file; JwksUnavailable."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise JwksUnavailable((error.strerror or "cannot be read").lower()) from None
    return _bounded(data, bytes_max)


def fetch(url: str, bytes_max: int) -> bytes:
    """Return what an https URL answers; JwksUnavailable for anything but status 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "",
        parts.port or http.client.HTTPS_PORT,
        timeout=STEP_SECONDS_MAX,
        context=ssl.create_default_context(),
    )
    late = Timer(FETCH_SECONDS_MAX, lambda: _cut(connection))
    late.daemon = True
    late.start()
    try:
        return _bounded(_get(connection, parts.path or "/", parts.query, bytes_max), bytes_max)
    except ssl.SSLError as error:
        raise JwksUnavailable(f"TLS failed: {error.reason or 'no reason given'}") from None
    except TimeoutError:
        raise JwksUnavailable("it took too long") from None
    except OSError as error:
        why = error.strerror or "the connection failed"
        raise JwksUnavailable(why.lower()) from None
    except (http.client.HTTPException, ValueError):
        raise JwksUnavailable("its answer is no HTTP") from None
    finally:
        late.cancel()
        connection.close()


def _get(connection: http.client.HTTPSConnection, path: str, query: str, bytes_max: int) -> bytes:
    target = f"{path}?{query}" if query else path
    connection.request("GET", target, headers={"Accept": "application/json"})
    with connection.getresponse() as response:
        if response.status != HTTPStatus.OK:
            raise JwksUnavailable(f"it answers {response.status} instead of 200")
        return response.read(bytes_max + 1)


def _bounded(data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise JwksUnavailable(f"more than {bytes_max} bytes")
    if not data:
        raise JwksUnavailable("nothing is there")
    return data


def _cut(connection: http.client.HTTPSConnection) -> None:
    """End an exchange that goes on and on; its thread then fails."""
    if isinstance(connection.sock, socket.socket):
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

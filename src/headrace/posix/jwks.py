"""Read the keys that sign tokens (JWKS) from a file or over https. Blocking.

Certificates and host names are always verified, with the system's authorities (SSL_CERT_FILE names
others). Redirects are not followed, proxies not used. Errors never quote a response.
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
"""Timeout in seconds of one step of an exchange."""
FETCH_SECONDS_MAX = 10.0
"""Timeout in seconds of a whole exchange."""


class JwksUnavailable(HeadraceError):
    """The keys could not be read; the text names the cause and quotes nothing."""


def read_file(path: str, bytes_max: int) -> bytes:
    """Return the content of a file; JwksUnavailable if it is unreadable, empty or too large."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise JwksUnavailable((error.strerror or "cannot be read").lower()) from None
    return _bounded(data, bytes_max)


def fetch(url: str, bytes_max: int) -> bytes:
    """Return the response body of an https URL; JwksUnavailable unless its status is 200."""
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
        raise JwksUnavailable("timed out") from None
    except OSError as error:
        why = error.strerror or "the connection failed"
        raise JwksUnavailable(why.lower()) from None
    except (http.client.HTTPException, ValueError):
        raise JwksUnavailable("invalid HTTP response") from None
    finally:
        late.cancel()
        connection.close()


def _get(connection: http.client.HTTPSConnection, path: str, query: str, bytes_max: int) -> bytes:
    target = f"{path}?{query}" if query else path
    connection.request("GET", target, headers={"Accept": "application/json"})
    with connection.getresponse() as response:
        if response.status != HTTPStatus.OK:
            raise JwksUnavailable(f"HTTP status {response.status} instead of 200")
        return response.read(bytes_max + 1)


def _bounded(data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise JwksUnavailable(f"more than {bytes_max} bytes")
    if not data:
        raise JwksUnavailable("it is empty")
    return data


def _cut(connection: http.client.HTTPSConnection) -> None:
    """Abort an exchange that exceeds its timeout; its thread then fails."""
    if isinstance(connection.sock, socket.socket):
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

"""Read a client's properties file, as for `--command-config` of Kafka's tools. Blocking."""

import os

from headrace.config.properties import parse
from headrace.model.errors import ConfigError

_FILE_BYTES_MAX = 1 << 20


def read_client_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings in a file by name; ConfigError, without the file's name.

    Errors never quote a line, as any may contain a secret.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError((error.strerror or str(error)).lower()) from None
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f"is larger than {_FILE_BYTES_MAX} bytes")
    try:
        return parse(content.decode())
    except UnicodeDecodeError:
        raise ConfigError("is not utf-8") from None
    except ConfigError:
        raise ConfigError("has a \\u without four hexadecimal digits") from None

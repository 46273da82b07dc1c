"""A client's properties file, as Kafka's tools take it by `--command-config`. Blocks."""

import os

from headrace.config.properties import parse
from headrace.model.errors import ConfigError

_FILE_BYTES_MAX = 1 << 20


def read_client_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings in a file by their names; ConfigError, without the file's name.

    Never quotes a line: any may hold a secret.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError((error.strerror or str(error)).lower()) from None
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f"is larger than the {_FILE_BYTES_MAX} bytes that settings may have")
    try:
        return parse(content.decode())
    except UnicodeDecodeError:
        raise ConfigError("is not utf-8") from None
    except ConfigError:
        raise ConfigError("has a \\u that four hexadecimal digits do not follow") from None

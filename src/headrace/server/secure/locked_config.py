"""`headrace serve --secure`: the given configuration completed with TLS, SCRAM and ACLs."""

import datetime
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.config.broker import BrokerConfig, load
from headrace.config.installing import install_command
from headrace.config.properties import render
from headrace.model.errors import ConfigError

if TYPE_CHECKING:
    from headrace.server.secure.preparation import Secured

_UMASK = 0o077
"""Files of a --secure broker are readable by its owner only, records included."""


class Prepared(NamedTuple):
    """A configuration with its warnings, and the files of --secure."""

    config: BrokerConfig
    warnings: list[str]
    secured: "Secured"


def prepare(text: str, flags: Mapping[str, str]) -> Prepared:
    """Create or load the files of --secure; return the configuration over `text`.

    Raises ConfigError.
    """
    try:
        from headrace.server.secure import preparation
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "cryptography":
            raise
        raise ConfigError(
            "--secure creates certificates, which needs a library:"
            f" {install_command('cryptography')}"
        ) from None
    os.umask(_UMASK)
    draft, _ = load(
        render(preparation.DRAFT) + text, os.environ, {**flags, "insecure.listeners": "true"}
    )
    preparation.check_given(draft)
    preparation.check_listeners(draft.listeners)
    now = datetime.datetime.now(datetime.UTC)
    secured = preparation.Secured(draft, socket.gethostname(), now)
    settings = {"listeners": preparation.DRAFT["listeners"]}
    config, warnings = load(
        render(settings) + text, os.environ, {**flags, **secured.settings(draft)}
    )
    preparation.check_config(config)
    warnings += [
        f"{path}: other users of this machine can read its secrets: chmod go-rwx {path}"
        for path in config.log_dirs
        if os.path.isdir(path) and os.stat(path).st_mode & 0o077
    ]
    return Prepared(config, warnings, secured)

"""The versions of deltalake that Delta tables are written with."""

import re

from headrace.config.installing import install_command
from headrace.spark.errors import SourceError

FIRST, END = (1, 6, 6), (2,)
"""The first supported version, and the first later one that is not supported."""


def check_version(installed: str) -> None:
    """Raise SourceError unless this version of deltalake is supported.

    Earlier versions append rows where a commit must replace files.
    """
    numbers = tuple(map(int, re.findall(r"\d+", installed)[:3]))
    if not FIRST <= numbers < END:
        supported = f">={'.'.join(map(str, FIRST))},<{'.'.join(map(str, END))}"
        raise SourceError(
            f"deltalake {installed} is installed, and Delta tables need deltalake{supported}: "
            f"{install_command(f'deltalake{supported}')}"
        )

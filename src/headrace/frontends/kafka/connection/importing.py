"""Importing, for a cold handler, without holding the loop up."""

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.ports.disk import Disk


async def imported(disk: "Disk", module: str) -> None:
    """Import by a thread of `disk` what the next step would import on the loop. ImportError."""
    if module not in sys.modules:
        await called_back(partial(disk.run, partial(import_module, module)))

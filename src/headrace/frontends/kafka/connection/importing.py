"""Import, on a thread, of a module that a cold handler needs while it runs."""

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.ports.disk import Disk


async def imported(disk: "Disk", module: str) -> None:
    """Import a module on a thread of `disk`, if it is not loaded; raise ImportError."""
    if module not in sys.modules:
        await called_back(partial(disk.run, partial(import_module, module)))

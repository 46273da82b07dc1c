"""CRC32C of byte buffers, from the `crc32c` package's C extension without its Python modules.

The package imports a command and its version number, and with them argparse, importlib.metadata,
email and zipfile: a tenth of a broker's start time. So the extension alone is located and loaded;
if that fails, the package is imported.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.ports.disk import Buffer


class Checksum(Protocol):
    """A CRC32C function: (data, CRC of the bytes before, 0 at the start) to CRC."""

    def __call__(self, data: "Buffer", value: int = 0, /) -> int: ...


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    extension = PathFinder.find_spec("_crc32c", places) if places else None
    if extension is not None and extension.loader is not None:
        module = module_from_spec(extension)
        extension.loader.exec_module(module)
        found: Checksum = module.crc32c
        return found
    import crc32c as whole

    return whole.crc32c


crc32c = _load()

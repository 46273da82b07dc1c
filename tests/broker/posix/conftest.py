"""Fixtures of the room: a real disk, calls that flush, descriptors that must be closed."""

from tests.unit.posix.conftest import disk, no_descriptor_is_left, noting, synced

__all__ = ["disk", "no_descriptor_is_left", "noting", "synced"]

"""Implementations of `ports` on a POSIX system: disk, clock, network, metadata store, threads."""

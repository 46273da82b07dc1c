"""Interfaces to the outside world, as protocols: clock, disk, network, metadata store.

`World` bundles them for one broker. `posix` has the real implementations (RealClock, RealDisk, …),
`testing` the simulated ones. Rooms below `net` and `client` never call `time`, `os`, `random` or
sockets: they get one of these instead.
"""

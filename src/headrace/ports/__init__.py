"""All that a decision may ask of the world, as protocols.

`clock`, `disk`, `network`, `store`, and `world`: all of them, as one broker is handed them. `posix`
holds the real ones (RealClock, RealDisk, …), `testing` the simulated ones. Nothing below `net` and
`client` calls `time`, `os`, `random` or a socket: it is handed one of these.
"""

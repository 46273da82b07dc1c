"""Who asks and what they may, the same for every frontend. Pure: no sockets, no files, no clock.

May import: wire, record, config, observe, ports, model. Begin with `authorizer`.
"""

"""Authentication and authorisation, shared by all frontends. Pure: no sockets, no files, no clock.

May import: wire, record, config, observe, ports, model. `authorizer` is the place to start.
"""

"""TLS between a socket and a connection."""

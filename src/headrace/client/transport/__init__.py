"""Transports of the client: plain sockets or an asyncio loop, with TLS and SASL."""

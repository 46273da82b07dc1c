"""How the client reaches brokers: plain sockets or an asyncio loop, TLS and SASL."""

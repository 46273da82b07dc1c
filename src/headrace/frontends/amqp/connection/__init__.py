"""AMQP connections: bytes, frames, negotiation, login, and channels."""

"""Authentication of Kafka connections, and the permission that each API needs."""

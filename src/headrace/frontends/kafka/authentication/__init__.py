"""Authentication of Kafka connections, and what each API asks the authorizer."""

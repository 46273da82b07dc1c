"""A protocol that does not exist: its room, and the one row that brokers serve it by."""

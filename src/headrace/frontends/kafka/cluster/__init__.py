"""Requests between brokers: only by a listener for brokers, only from registered ones."""

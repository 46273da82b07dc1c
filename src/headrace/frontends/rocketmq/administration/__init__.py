"""Requests of operators: resets, settings of groups and topics, states of clients and brokers."""

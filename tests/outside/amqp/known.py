"""What is known to be otherwise with us than with RabbitMQ 4.0, and why it stays so."""

OURS: dict[str, str] = {}
"""Scenarios by their claim."""

"""What is known to be otherwise with us than with RabbitMQ 4.0, and why it stays so."""

OURS: dict[tuple[str, str], str] = {}
"""The reason, by client and claim of a scenario."""

"""Filters of messages by SQL92 expressions over their properties."""

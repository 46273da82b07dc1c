"""Requests of the client, each with the range of API versions that it can encode."""

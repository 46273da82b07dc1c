"""Requests of the client, each in the versions that it can encode."""

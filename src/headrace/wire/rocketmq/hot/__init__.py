"""Codecs by hand of what clients send and pull most."""

"""Bytes <-> messages, without I/O. Nothing in this room reads a clock, a file or a socket.

`kafka` speaks Kafka's protocol and record formats.
"""

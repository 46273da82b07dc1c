"""Encoding and decoding of messages, without I/O: no clock, no file, no socket.

`kafka` has Kafka's protocol and record formats, `amqp` AMQP 0-9-1.
"""

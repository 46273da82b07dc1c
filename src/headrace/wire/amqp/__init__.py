"""AMQP 0-9-1 with RabbitMQ's extensions: bytes to messages and back, without I/O.

content        a message: its content header as it came, its body
reply_codes    the codes and exceptions by which a channel or a connection is closed
"""

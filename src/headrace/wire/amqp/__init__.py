"""AMQP 0-9-1 with RabbitMQ's extensions: bytes to messages and back, without I/O.

frames          frames, and walks over those of a read
methods         any method, by the table in control_methods and model_methods
hot             what moves messages, by hand: publishes, deliveries, acks
properties      a message's properties, read from its content header and spliced into it
field_table     tables of many types: headers, arguments, client properties
header_texts    values of headers as texts and bytes, for readers without field tables
record_headers  names of a record's headers that keep what AMQP said of a message
content         a message: its content header as it came, its body
settings        the broker's settings for clients of AMQP
first_bytes     how its clients are known at a listener of another protocol
reply_codes     the codes and exceptions by which a channel or a connection is closed
"""

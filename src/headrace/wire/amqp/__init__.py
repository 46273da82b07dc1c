"""AMQP 0-9-1 with RabbitMQ's extensions: encoding and decoding, without I/O.

frames          frames, and iteration over the frames of a read
methods         all methods, by the tables in control_methods and model_methods
hot             hand-written codecs of publishes, deliveries and acknowledgements
properties      a message's properties, read from its content header or changed within it
field_table     field tables: headers, arguments, client properties
header_texts    header values as strings and bytes, for readers without field tables
record_headers  names of the record headers that store AMQP metadata
content         a message: its content header as received, and its body
settings        the broker's settings for AMQP clients
first_bytes     recognition of AMQP clients at a listener of another protocol
reply_codes     the codes and exceptions that close a channel or connection
"""

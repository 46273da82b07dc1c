"""AMQP 0-9-1 as RabbitMQ 4.0 speaks it: a connection from its first byte to its last.

connection     the state machine: bytes in, bytes out, no I/O
channels       the channels of a connection and what their frames are for
contents       header and body frames put together to messages
negotiation    what is told and agreed before a connection is open
texts          RabbitMQ's words for what cannot be read
ports          what a connection asks of the broker behind it
frontend       what a broker with such listeners begins with

queue_topics   how the topic of a queue is configured
topics_of_queues  what Kafka's clients do to the topics of queues

queue_broker   the broker behind them: logins, virtual hosts, the end of each pass
client         one connection's use of a virtual host
channel        what a channel has; what its methods do begins at channel_methods: exchange_methods,
               queue_methods, basic_publish, basic_consume, basic_settle, transactions
confirms       publisher confirms

bounds         what clients may hold of the broker; unfinished: of messages that are not whole
alarms         the broker is low on memory or disk; publish_hold: what that does to one connection
consumer_timeouts  deliveries that are not acknowledged in time
direct_replies replies without a queue
logins         who a client is
"""

"""AMQP 0-9-1 as RabbitMQ 4.0 implements it: connections, channels and administration.

connection/      the protocol without I/O: frames, negotiation, login, channels, errors
channel/         methods of a channel: exchange, queue, basic, confirm, tx; unacked deliveries
frontend         the listeners' frontend and its start
queue_broker     the broker behind connections: logins, vhosts, the end of each pass
client           a connection's use of a vhost; connected: clients by vhost and user
channel_consumers  consumers of a channel, and the memory of all clients' consumers
bounds           limits of what clients may hold
replies          errors of the model as AMQP errors
administration   operations of administrators; topology, listing, admin_methods: parts of it
queue_gauges     metrics of queues
"""

"""`headrace amqp`: administration of AMQP virtual hosts, users, permissions and declarations.

* `amqp`: the tree of commands; connections, channels and consumers
* `vhosts`, `users`, `permissions`, `topic_permissions`: virtual hosts, and access to them
* `exchanges`, `queues`, `bindings`: declarations
* `queue_members`, `maintenance`: brokers of a cluster's queues
* `asking`: requests to a broker, and printing of results
"""

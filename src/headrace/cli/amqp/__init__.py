"""`headrace amqp`: what there is for RabbitMQ's clients, and who may do what.

* `amqp`: the tree of commands, and who is connected
* `vhosts`, `users`, `permissions`: who may come in, and do what
* `exchanges`, `queues`, `bindings`: what clients declare
* `asking`: how it is asked, and how answers are printed
"""

"""`headrace amqp`: what there is for RabbitMQ's clients, and who may do what.

* `amqp`: the tree of commands, and what is only listed
* `vhosts`, `users`, `permissions`: what is changed
* `asking`: how it is asked, and how answers are printed
"""

"""Commands for operators of RabbitMQ: `amqp/` is `headrace amqp`.

AMQP's row (`model/protocols.py`) names the tree of `headrace amqp` as text; its modules are
imported when one of its verbs is used.
"""

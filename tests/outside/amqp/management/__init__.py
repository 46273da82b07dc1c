"""RabbitMQ's recorded management calls and commands, replayed against a broker and compared.

`requests/` has the calls, one file a section, in the order in which they are sent: sections build
on each other's objects. `tests/golden/rabbitmq-4.3.6` has RabbitMQ's answers.
"""

"""AMQP's model and its queues: who is routed to, what waits, and who holds it.

Pure: time is handed in, nothing is read or written here.
"""

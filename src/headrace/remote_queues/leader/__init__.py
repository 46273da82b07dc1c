"""The leader's half: queues of this broker with the calls of other brokers' channels."""

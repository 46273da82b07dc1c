"""The home's half: queues of other brokers as the channels of this broker see them."""

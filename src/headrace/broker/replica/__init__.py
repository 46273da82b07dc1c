"""Replicas of a partition: the role of this broker, the ISR, followers, throttles."""

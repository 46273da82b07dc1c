"""What brokers ask each other: only by a listener for brokers, only who is registered."""

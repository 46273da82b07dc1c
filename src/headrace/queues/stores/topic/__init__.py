"""Writer of messages that exchanges store as records of a Kafka topic."""

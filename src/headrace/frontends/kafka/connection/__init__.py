"""Handling of Kafka requests: from a frame to the API's handler, and back to the answer."""

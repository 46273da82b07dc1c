"""Messages that wait in an internal log until they are delivered to their targets."""

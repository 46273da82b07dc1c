"""RocketMQ's remoting protocol and its stored messages: bytes to values and back, without I/O."""

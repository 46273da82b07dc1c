"""RocketMQ's remoting clients: connections, and one function for each request."""

"""Messages of durable queues: records of a partition, and a file of what is settled."""

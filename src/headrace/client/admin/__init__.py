"""Admin requests of the client: topics, groups, ACLs, quotas, users, replicas, AMQP queues."""

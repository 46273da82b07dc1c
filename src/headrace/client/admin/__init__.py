"""Administration through the client: topics, groups, ACLs, quotas, users, replicas, queues."""

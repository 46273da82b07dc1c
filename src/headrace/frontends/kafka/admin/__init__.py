"""Administration: topics, settings, quotas, log directories, client metrics."""

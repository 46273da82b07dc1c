"""Where groups of RocketMQ's own consumer begin: cases played on Headrace and on RocketMQ."""

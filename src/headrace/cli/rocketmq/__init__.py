"""`headrace rocketmq`: what RocketMQ's groups read, and moves of their offsets."""

"""The files of a RocketMQ broker's store, as bytes: what a move reads and an export writes."""

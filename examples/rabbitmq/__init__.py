"""The programs one learns RabbitMQ with, on Headrace: README.md says how to run each."""

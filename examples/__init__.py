"""Programs to read, run and change: a pipeline of Spark, and what one learns RabbitMQ with."""

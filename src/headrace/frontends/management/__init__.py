"""RabbitMQ's management API over HTTP: its listener, credentials and replies (ADR 81, 82).

- `frontend`: the listener's sessions; all that a start needs.
- `requests`: from an HTTP request to its row of the table; imported with the first connection.
- `credentials`: HTTP Basic against the logins of AMQP.
- `replies`: replies of handlers and refusals as HTTP.
- `conditions`: requests from other sites, and the types that a client accepts.
"""

"""Requests of the management API.

- `table`: rows of method, path pattern, required tag and handler; how a request finds its row.
- `request`: a request and its reply; decoding of a JSON body.
- `errors`: refusals: status, `error` and `reason`.
- `tags`: RabbitMQ's reasons of a refusal for a missing tag.
- `visible`: the virtual hosts whose objects a user sees.
"""

"""Definitions: documents with the objects of a cluster or of one vhost, as RabbitMQ exports them.

- `form`: the form by which RabbitMQ's UI uploads a document.
- `document`: a document: its check, then its objects by section, in steps.
- `objects`, `members`: kinds of objects, and checks of their members.
- `elements`: JSON read element by element, with lines.
"""

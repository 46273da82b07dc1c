"""Connections: bytes in, whole frames to a session, answers out in order, everything bounded.

* `connection`: one client. All whole frames of one read are handled in one pass, and their answers
  leave in one write. `inbox`: where its bytes land: a buffer all connections share, or, for frames
  larger than that, one of its own from the pool in `buffers`.
* `answering`: the half of a connection that sends. `pending`: an answer that is not there yet keeps
  its place in the queue. `outlet`: the way out of answers with ranges of files in them.
* `session`: what a connection asks of who knows what its frames mean and answers them in order;
  `requests`: how they are handed to it. `stream`: the same for who tells frames apart himself and
  sends when he likes. `write_pass`: what a pass appends, written together before it is answered.
* `table`: all connections, what they share, and the one sweep that enforces the deadlines.
* `listener`: accepting. `limits`: every bound, by name.

Protocol-agnostic: a frame is a four-byte big-endian length and that many bytes, or what a session
says. What it means is for the session it is handed to (`frontends`).
"""

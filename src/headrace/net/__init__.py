"""Network connections: receive frames, pass them to a session, send answers in order, with limits.

* `connection`: one client. All whole frames of one read are handled in one pass; their answers
  leave in one write. `inbox`: the receive buffer, shared by all connections, or a pooled one
  (`buffers`) for a larger frame.
* `answering`: the sending half of a connection. `pending`: a later answer, which keeps its place in
  the queue. `outlet`: sends answers that contain ranges of files.
* `session`: the interface of a protocol that answers requests in order; `requests` calls it.
  `stream`: the interface of a protocol that parses its own frames and sends at any time.
  `write_pass`: the appends of a pass, written together before its answers leave.
* `table`: all connections, shared buffers, and the timer that enforces deadlines.
* `listener`: accepts connections. `limits`: all limits, by name.

Independent of protocols: a frame is a four-byte big-endian length and that many bytes, or what a
stream session defines. Sessions are in `frontends`.
"""

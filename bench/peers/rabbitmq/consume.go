// Consuming with an acknowledgement of each message, beside a publisher or alone.

package main

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// receiver consumes a queue and acknowledges each message by itself.
type receiver struct {
	link *conn
	ack  []byte
}

func newReceiver(o options) *receiver {
	link := dial(o.address)
	link.declare(o.queue, o.kind, durable)
	link.call(basicQos, arguments{}.long(0).short(uint16(o.prefetch)).octet(0), basicQosOk)
	link.call(basicConsume, arguments{}.short(0).text(o.queue).text("c").octet(0).table(), basicConsumeOk)
	return &receiver{link, methodFrame(1, basicAck, arguments{}.longlong(0).octet(0))}
}

// take returns a message's body once its acknowledgement is under way.
func (r *receiver) take() []byte {
	kind, payload := r.link.next()
	if kind != frameMethod || methodOf(payload) != basicDeliver {
		refuse(kind, payload)
	}
	tag := payload[5+int(payload[4]):][:8]
	copy(r.ack[11:], tag)
	kind, payload = r.link.next()
	if kind != frameHeader {
		refuse(kind, payload)
	}
	size := binary.BigEndian.Uint64(payload[4:])
	for read := uint64(0); read < size; read += uint64(len(payload)) {
		if kind, payload = r.link.next(); kind != frameBody {
			refuse(kind, payload)
		}
	}
	r.link.write(r.ack)
	return payload
}

// settled returns when the broker has read all acknowledgements.
func (r *receiver) settled() {
	r.link.write(methodFrame(1, basicQos, arguments{}.long(0).short(1).octet(0)))
	for {
		if kind, payload := r.link.next(); kind == frameMethod && methodOf(payload) == basicQosOk {
			return
		}
	}
}

func drain(o options) result {
	started := time.Now()
	r := newReceiver(o)
	for range o.messages {
		r.take()
	}
	r.settled()
	return result{Messages: o.messages, Seconds: time.Since(started).Seconds()}
}

// both publishes with confirms and consumes at once: messages that went the whole way.
func both(o options) result {
	s, exchange, key := newSender(o)
	r := newReceiver(o)
	frames := message(exchange, key, make([]byte, o.size))
	var sent atomic.Int64
	started := time.Now()
	go func() {
		s.fill(o, frames, started)
		s.finish(o.queue)
		sent.Store(s.sent)
		// The end is told by a message of its own, so that who waits for one learns of it.
		s.send(frames)
		s.link.flush()
	}()
	taken := int64(0)
	for end := int64(0); end == 0 || taken <= end; end = sent.Load() {
		r.take()
		taken++
	}
	r.settled()
	return result{Messages: taken, Seconds: time.Since(started).Seconds()}
}

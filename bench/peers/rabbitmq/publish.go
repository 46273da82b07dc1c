// Publishing: as fast as it goes, with or without confirms, or at a steady rate.

package main

import (
	"encoding/binary"
	"time"
)

const persistent = 2

// message returns the frames of a publish: method, header with delivery mode 2, body.
func message(exchange, key string, body []byte) []byte {
	made := methodFrame(1, basicPublish, arguments{}.short(0).text(exchange).text(key).octet(0))
	header := arguments{}.short(60).short(0).longlong(uint64(len(body))).short(0x1000).octet(persistent)
	made = append(made, frame(frameHeader, 1, header)...)
	return append(made, frame(frameBody, 1, body)...)
}

// confirms tells which of the messages in flight are confirmed, one by one or several at once.
type confirms struct {
	window    int64
	lowest    int64
	beyond    []bool
	confirmed chan int64
}

func newConfirms(window int64) *confirms {
	return &confirms{window, 1, make([]bool, window), make(chan int64, 1<<16)}
}

// listen reads confirms until so many have come. What it tells is how many are new.
func (s *confirms) listen(c *conn) {
	for {
		kind, payload := c.next()
		if kind != frameMethod || methodOf(payload) != basicAck {
			refuse(kind, payload)
		}
		tag := int64(binary.BigEndian.Uint64(payload[4:]))
		s.confirmed <- s.noted(tag, payload[12]&1 == 1)
	}
}

func (s *confirms) noted(tag int64, multiple bool) int64 {
	count := int64(0)
	first := tag
	if multiple {
		first = s.lowest
	}
	for ; first <= tag; first++ {
		if !s.beyond[first%s.window] {
			s.beyond[first%s.window] = true
			count++
		}
	}
	for s.beyond[s.lowest%s.window] {
		s.beyond[s.lowest%s.window] = false
		s.lowest++
	}
	return count
}

// sender publishes on a connection of its own, with so many messages unconfirmed at most.
type sender struct {
	link     *conn
	confirms *confirms
	sent     int64
	known    int64
}

func newSender(o options) (s *sender, exchange, key string) {
	link := dial(o.address)
	exchange, key = link.furnish(o.queue, o.kind, o.fanout)
	s = &sender{link: link}
	if o.window > 0 {
		link.call(confirmSelect, arguments{}.octet(0), confirmSelectOk)
		s.confirms = newConfirms(o.window)
		go s.confirms.listen(wrapReader(link))
	}
	return s, exchange, key
}

// wrapReader is the same connection to read from alone: its writer belongs to the sender.
func wrapReader(link *conn) *conn {
	reader := wrap(link.Conn)
	reader.in, reader.pending = link.in, link.pending
	return reader
}

func (s *sender) send(frames []byte) {
	if s.confirms != nil {
		for s.sent-s.known >= s.confirms.window {
			s.wait()
		}
	}
	s.link.write(frames)
	s.sent++
}

// wait sends what is gathered, and returns when at least one more is confirmed.
func (s *sender) wait() {
	if len(s.confirms.confirmed) == 0 {
		s.link.flush()
	}
	s.known += <-s.confirms.confirmed
	for len(s.confirms.confirmed) > 0 {
		s.known += <-s.confirms.confirmed
	}
}

// finish returns when all that was sent is confirmed, or without confirms when the queue has it.
func (s *sender) finish(queue string) {
	s.link.flush()
	if s.confirms == nil {
		for s.link.ready(queue) < s.sent {
			time.Sleep(2 * time.Millisecond)
		}
		return
	}
	for s.known < s.sent {
		s.wait()
	}
}

func publish(o options) result {
	s, exchange, key := newSender(o)
	frames := message(exchange, key, make([]byte, o.size))
	started := time.Now()
	s.fill(o, frames, started)
	s.finish(o.queue)
	return result{Messages: s.sent, Seconds: time.Since(started).Seconds()}
}

// fill publishes so many messages, or as long as is asked for.
func (s *sender) fill(o options, frames []byte, started time.Time) {
	for o.messages == 0 || s.sent < o.messages {
		if o.messages == 0 && s.sent&0x3f == 0 && time.Since(started).Seconds() > o.seconds {
			return
		}
		s.send(frames)
	}
}

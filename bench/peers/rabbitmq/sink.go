// A broker that does no work: it says what the generator itself can.

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
)

// publishBytes is how long the method frame of a publish is that names nothing.
const publishBytes = 7 + 4 + 2 + 1 + 1 + 1 + 1

// kept is what all connections of a sink share: how many messages came.
var kept atomic.Int64

// answers are what a method is answered with, nothing where it is not here.
var answers = map[uint32][]byte{
	connectionStartOk: methodFrame(0, connectionTune, arguments{}.short(2047).long(131072).short(0)),
	connectionOpen:    methodFrame(0, connectionOpenOk, arguments{}.text("")),
	channelOpen:       methodFrame(1, channelOpenOk, arguments{}.long(0)),
	confirmSelect:     methodFrame(1, confirmSelectOk, nil),
	basicQos:          methodFrame(1, basicQosOk, nil),
	queueDelete:       methodFrame(1, queueDeleteOk, arguments{}.long(0)),
	basicConsume:      methodFrame(1, basicConsumeOk, arguments{}.text("c")),
}

func sink(o options) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	for {
		socket, err := listener.Accept()
		check(err)
		go serve(wrap(socket), o)
	}
}

type served struct {
	*conn
	o         options
	confirms  bool
	published uint64
	confirmed uint64
	delivered uint64
	credit    int64
	delivery  []byte
}

// tagAt is where the delivery tag lies in a delivery to the consumer c.
const tagAt = 7 + 4 + 2

func serve(c *conn, o options) {
	deliver := arguments{}.text("c").longlong(0).octet(0).text("").text("q")
	content := message("", "", make([]byte, o.size))[publishBytes:]
	s := &served{conn: c, o: o, delivery: append(methodFrame(1, basicDeliver, deliver), content...)}
	_, err := c.in.Discard(8)
	check(err)
	c.write(methodFrame(0, connectionStart, arguments{0, 9}.table().longText("PLAIN").longText("en_US")))
	for {
		if c.in.Buffered()-c.pending < 8 {
			s.turn()
			if _, err := c.in.Peek(c.pending + 1); err != nil {
				return // the generator is done
			}
		}
		if kind, payload := c.next(); kind == frameMethod {
			s.answer(payload)
		}
	}
}

// turn confirms what was read, hands out what may be, and sends it.
func (s *served) turn() {
	if s.confirms && s.published > s.confirmed {
		s.confirmed = s.published
		s.write(methodFrame(1, basicAck, arguments{}.longlong(s.confirmed).octet(1)))
	}
	for ; s.credit > 0; s.credit-- {
		s.delivered++
		binary.BigEndian.PutUint64(s.delivery[tagAt:], s.delivered)
		s.write(s.delivery)
	}
	s.flush()
}

func (s *served) answer(payload []byte) {
	method := methodOf(payload)
	switch method {
	case basicPublish:
		s.published++
		kept.Add(1)
	case basicAck:
		s.credit++
	case queueDeclare:
		name := string(payload[7 : 7+int(payload[6])])
		counted := arguments{}.text(name).long(uint32(kept.Load())).long(0)
		s.write(methodFrame(1, queueDeclareOk, counted))
	case basicConsume:
		s.credit = int64(s.o.prefetch)
		s.write(answers[method])
	case confirmSelect:
		s.confirms = true
		s.write(answers[method])
	case basicQos:
		if binary.BigEndian.Uint16(payload[8:]) == 1 {
			s.credit = -1 << 60 // the consumer is done
		}
		s.write(answers[method])
	default:
		if said, there := answers[method]; there {
			s.write(said)
		}
	}
}

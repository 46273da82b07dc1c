// Pulls of all queues of a topic at once, as a push consumer does: 32 messages each, the offset of a
// queue sent with its next pull.

package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

const (
	group           = "CG_bench"
	messagesOfAPull = "32"
	// commit the offset, wait for messages, carry the subscription
	pullFlags = "7"
	magicAt   = 4
)

// reader is the next pull of a queue.
type reader struct {
	frame, opaque, offset, commit []byte
	next                          int64
}

func newReader(o options, queue int, flags string) *reader {
	zeros := fmt.Sprintf("%0*d", digitsOfOffset, 0)
	made := frame(pullMessage, fields(
		"consumerGroup", group, "topic", o.topic, "queueId", strconv.Itoa(queue),
		"queueOffset", zeros, "maxMsgNums", messagesOfAPull, "sysFlag", flags,
		"commitOffset", zeros, "suspendTimeoutMillis", "15000", "subscription", "*",
		"subVersion", "0", "expressionType", "TAG",
	), nil)
	place := func(name string) []byte {
		at := after(made, `"`+name+`":"`)
		return made[at : at+digitsOfOffset]
	}
	return &reader{made, opaqueIn(made), place("queueOffset"), place("commitOffset"), 0}
}

func (r *reader) pull(c *conn, queue int) {
	write(r.opaque, firstOpaque+int64(queue))
	write(r.offset, r.next)
	write(r.commit, r.next)
	_, err := c.out.Write(r.frame)
	check(err)
}

func pull(o options) result {
	c := dial(brokerOf(o.nameServer))
	readers := make([]*reader, o.queues)
	started := time.Now()
	for queue := range readers {
		readers[queue] = newReader(o, queue, pullFlags)
		readers[queue].pull(c, queue)
	}
	taken := int64(0)
	for taken < o.messages {
		said := c.next()
		queue := int(opaqueOf(said) - firstOpaque)
		r := readers[queue]
		switch said.code {
		case success:
			taken += messagesIn(said.body)
			r.next = said.field("nextBeginOffset")
		case pullNotFound, pullRetry, pullOffsetMoved:
			r.next = said.field("nextBeginOffset")
		default:
			said.refused("a pull")
		}
		r.pull(c, queue)
	}
	return result{Messages: taken, Seconds: time.Since(started).Seconds()}
}

// opaqueOf returns the number of the request that an answer belongs to.
func opaqueOf(said answer) int64 {
	return number(said.header[after(said.header, `"opaque":`):])
}

func messagesIn(body []byte) int64 {
	count := int64(0)
	for at := 0; at < len(body); count++ {
		if magic := binary.BigEndian.Uint32(body[at+magicAt:]); magic != 0xdaa320a7 {
			fail(fmt.Sprintf("a message with magic %x", magic))
		}
		at += int(binary.BigEndian.Uint32(body[at:]))
	}
	return count
}

// commit stores offsets of the queues in turn.
func commit(o options) result {
	c := dial(brokerOf(o.nameServer))
	zeros := fmt.Sprintf("%0*d", digitsOfOffset, 0)
	var frames []prepared
	for queue := range o.queues {
		made := frame(updateOffset, fields(
			"consumerGroup", group, "topic", o.topic, "queueId", strconv.Itoa(queue),
			"commitOffset", zeros,
		), nil)
		at := after(made, `"commitOffset":"`)
		frames = append(frames, prepared{made, opaqueIn(made), made[at : at+digitsOfOffset]})
	}
	started := time.Now()
	sent, came := int64(0), answers{}
	for sent&0x3f != 0 || time.Since(started).Seconds() < o.seconds {
		for sent-came.all() >= o.window {
			c.answered(&came)
		}
		next := frames[sent%int64(len(frames))]
		write(next.opaque, firstOpaque+sent)
		write(next.key, sent/int64(len(frames)))
		_, err := c.out.Write(next.frame)
		check(err)
		sent++
	}
	for came.all() < sent {
		c.answered(&came)
	}
	return result{Messages: came.stored, Failed: came.busy, Seconds: time.Since(started).Seconds()}
}

// Sends: so many requests without an answer on each connection, to the queues in turn.

package main

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const digitsOfKey = 12

// prepared is a send to one queue, with the places that change.
type prepared struct {
	frame, opaque, key []byte
}

func prepare(o options, queue int) prepared {
	key := fmt.Sprintf("7F00000100002A8D3E25%0*d", digitsOfKey, 0)
	made := frame(sendMessageV2, fields(
		"a", "PG_bench", "b", o.topic, "c", "TBW102", "d", "4", "e", strconv.Itoa(queue), "f", "0",
		"g", strconv.FormatInt(time.Now().UnixMilli(), 10), "h", "0",
		"i", uniqueKeyProperty+key+`\u0002WAIT\u0001true\u0002`,
		"j", "0", "k", "false", "m", "false",
	), make([]byte, o.size))
	at := after(made, uniqueKeyProperty) + len(key) - digitsOfKey
	return prepared{made, opaqueIn(made), made[at : at+digitsOfKey]}
}

func send(o options) result {
	address := brokerOf(o.nameServer)
	frames := make([][]prepared, o.connections)
	for one := range frames {
		for queue := range o.queues {
			frames[one] = append(frames[one], prepare(o, queue))
		}
	}
	var stored, failed atomic.Int64
	var all sync.WaitGroup
	started := time.Now()
	for one := range o.connections {
		all.Add(1)
		go func() {
			defer all.Done()
			counts := sendOn(dial(address), o, one, frames[one], started)
			stored.Add(counts.stored)
			failed.Add(counts.busy)
		}()
	}
	all.Wait()
	return result{
		Messages: stored.Load(), Failed: failed.Load(), Seconds: time.Since(started).Seconds(),
	}
}

// answers are counted: messages that are stored, and those refused because the broker is busy.
type answers struct {
	stored, busy int64
}

func (a *answers) all() int64 { return a.stored + a.busy }

// sendOn sends on one connection until its share is sent, or the time is over.
func sendOn(c *conn, o options, one int, frames []prepared, started time.Time) answers {
	share := o.messages / int64(o.connections)
	sent, came := int64(0), answers{}
	// Connections begin at queues of their own.
	first := int64(one * len(frames) / o.connections)
	over := func() bool {
		if o.messages > 0 {
			return sent >= share
		}
		return sent&0x3f == 0 && time.Since(started).Seconds() > o.seconds
	}
	for !over() {
		for sent-came.all() >= o.window {
			c.answered(&came)
		}
		next := frames[(first+sent)%int64(len(frames))]
		write(next.opaque, firstOpaque+sent)
		write(next.key, int64(one)<<32+sent)
		_, err := c.out.Write(next.frame)
		check(err)
		sent++
	}
	for came.all() < sent {
		c.answered(&came)
	}
	check(c.Close())
	return came
}

// answered reads the answer of a send. Messages that are stored but not flushed in time are stored.
func (c *conn) answered(came *answers) {
	switch said := c.next(); said.code {
	case success, flushDiskTimeout:
		came.stored++
	case systemBusy:
		came.busy++
	default:
		said.refused("a request")
	}
}

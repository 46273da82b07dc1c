// What the measurements declare and delete.

package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

const durable, passive = 2, 1

func (c *conn) declare(queue, kind string, bits byte) {
	inner := arguments{}.short(0).text(queue).octet(bits)
	if kind == "" {
		inner = inner.table()
	} else {
		inner = inner.table("x-queue-type", kind)
	}
	c.call(queueDeclare, inner, queueDeclareOk)
}

// ready returns how many messages a queue has that are handed out to nobody.
func (c *conn) ready(queue string) int64 {
	inner := arguments{}.short(0).text(queue).octet(passive).table()
	answer := c.call(queueDeclare, inner, queueDeclareOk)
	return int64(binary.BigEndian.Uint32(answer[1+len(queue):]))
}

// furnish declares the queue, or a fanout exchange of that name bound to so many queues; it returns
// where to publish.
func (c *conn) furnish(queue, kind string, fanout int) (exchange, key string) {
	if fanout == 0 {
		c.declare(queue, kind, durable)
		return "", queue
	}
	inner := arguments{}.short(0).text(queue).text("fanout").octet(durable).table()
	c.call(exchangeDeclare, inner, exchangeDeclareOk)
	for number := range fanout {
		bound := fmt.Sprintf("%s-%d", queue, number)
		c.declare(bound, kind, durable)
		c.call(queueBind, arguments{}.short(0).text(bound).text(queue).text("").octet(0).table(), queueBindOk)
	}
	return queue, ""
}

func (c *conn) remove(queue string, fanout int) {
	if fanout == 0 {
		c.call(queueDelete, arguments{}.short(0).text(queue).octet(0), queueDeleteOk)
		return
	}
	for number := range fanout {
		c.remove(fmt.Sprintf("%s-%d", queue, number), 0)
	}
	c.call(exchangeDelete, arguments{}.short(0).text(queue).octet(0), exchangeDeleteOk)
}

// declareMany declares queues over connections that each wait for their answers.
func declareMany(o options) result {
	links := make([]*conn, o.connections)
	for at := range links {
		links[at] = dial(o.address)
	}
	var all sync.WaitGroup
	started := time.Now()
	for at, link := range links {
		all.Go(func() {
			for number := at; number < int(o.messages); number += len(links) {
				link.declare(fmt.Sprintf("%s-%d", o.queue, number), o.kind, durable)
			}
		})
	}
	all.Wait()
	return result{Messages: o.messages, Seconds: time.Since(started).Seconds()}
}

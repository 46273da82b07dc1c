// Queues: names, arguments, counts, expiry, order and length, and where their dead go.
package main

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var queues = map[string]scenario{
	"a-queue-named-by-the-server-goes-with-its-connection": named,
	"unequal-arguments-are-refused":                        unequal,
	"purging-and-deleting-tell-how-many-there-were":        counts,
	"messages-and-queues-expire":                           expiry,
	"urgent-messages-go-first":                             priorities,
	"a-bounded-queue-drops-its-oldest":                     bounded,
	"a-rejected-message-dies-with-its-history":             rejected,
	"an-expired-message-dies-with-its-history":             expired,
}

func named(connection *amqp.Connection, channel *amqp.Channel) {
	owner := must(amqp.Dial(url))
	queue := must(must(owner.Channel()).QueueDeclare("", false, false, true, false, nil)).Name
	check(strings.HasPrefix(queue, "amq.gen-"), "%s", queue)
	_, err := channel.QueueDeclarePassive(queue, false, false, true, false, nil)
	refused(405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+queue+"' in vhost '/'. It could "+
		"be originally declared on another connection or the exclusive property value does not match that of the "+
		"original declaration.", err)
	done(owner.Close())
	_, err = must(connection.Channel()).QueueDeclarePassive(queue, false, false, true, false, nil)
	refused(404, "NOT_FOUND - no queue '"+queue+"' in vhost '/'", err)
}

func unequal(connection *amqp.Connection, channel *amqp.Channel) {
	queue := unused("q")
	declare := func(channel *amqp.Channel, durable bool, ttl any) error {
		_, err := channel.QueueDeclare(queue, durable, true, false, false, amqp.Table{"x-message-ttl": ttl})
		return err
	}
	text := "PRECONDITION_FAILED - inequivalent arg "
	done(declare(channel, false, int32(1000)))
	refused(406, text+"'durable' for queue '"+queue+"' in vhost '/': received 'true' but current is 'false'",
		declare(must(connection.Channel()), true, int32(1000)))
	refused(406, text+"'x-message-ttl' for queue '"+queue+"' in vhost '/': received '2000' but current is '1000'",
		declare(must(connection.Channel()), false, int32(2000)))
	// A number is a number, however many bytes it has.
	done(declare(channel, false, int64(1000)))
	must(channel.QueueDelete(queue, false, false, false))
}

func counts(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "0", "1", "2")
	eventually("three messages", func() bool { return ready(channel, queue) == 3 })
	equal(3, must(channel.QueuePurge(queue, false)))
	publish(channel, queue, "3", "4")
	got := consume(must(connection.Channel()), queue, false)
	next(got)
	next(got)
	equal(1, must(channel.QueueDeclarePassive(queue, false, false, true, false, nil)).Consumers)
	_, err := must(connection.Channel()).QueueDelete(queue, true, false, false)
	refused(406, "PRECONDITION_FAILED - queue '"+queue+"' in vhost '/' in use", err)
	// What a consumer holds is not counted.
	equal(0, must(channel.QueueDelete(queue, false, false, false)))
	equal(0, must(channel.QueueDelete(queue, false, false, false)))
	second := declared(channel, nil)
	publish(channel, second, "5")
	eventually("a message", func() bool { return ready(channel, second) == 1 })
	equal(1, must(channel.QueueDelete(second, false, false, false)))
}

func expiry(_ *amqp.Connection, channel *amqp.Channel) {
	brief := declared(channel, amqp.Table{"x-message-ttl": int32(100)})
	publish(channel, brief, "brief")
	eventually("the message's end by its queue", func() bool { return ready(channel, brief) == 0 })
	queue := declared(channel, nil)
	send(channel, "", queue, amqp.Publishing{Expiration: "100", Body: []byte("brief")})
	publish(channel, queue, "stays")
	time.Sleep(300 * time.Millisecond)
	holds(channel, queue, "stays")
	gone := unused("q")
	must(channel.QueueDeclare(gone, false, false, false, false, amqp.Table{"x-expires": int32(200)}))
	time.Sleep(time.Second)
	_, err := channel.QueueDeclarePassive(gone, false, false, false, false, nil)
	refused(404, "NOT_FOUND - no queue '"+gone+"' in vhost '/'", err)
}

func priorities(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, amqp.Table{"x-max-priority": int32(5)})
	for _, priority := range "039351" {
		send(channel, "", queue, amqp.Publishing{Priority: uint8(priority - '0'), Body: []byte(string(priority))})
	}
	// Above the highest counts as the highest.
	holds(channel, queue, "9", "5", "3", "3", "1", "0")
}

func bounded(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, amqp.Table{"x-max-length": int32(2)})
	publish(channel, queue, "0", "1", "2")
	holds(channel, queue, "1", "2")
}

func death(message amqp.Delivery, at int) amqp.Table {
	return message.Headers["x-death"].([]any)[at].(amqp.Table)
}

func rejected(_ *amqp.Connection, channel *amqp.Channel) {
	dead := declared(channel, nil)
	queue := declared(channel, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	publish(channel, queue, "poison")
	found, there := get(channel, queue, false)
	check(there, "nothing came")
	done(found.Reject(false))
	found = arrived(channel, dead)
	history := death(found, 0)
	_, timed := history["time"].(time.Time)
	check(timed, "no time of death")
	delete(history, "time")
	equal(amqp.Table{
		"reason": "rejected", "queue": queue, "exchange": "", "count": int64(1), "routing-keys": []any{queue},
	}, history)
	for _, name := range []string{"x-first-death-", "x-last-death-"} {
		equal("rejected", found.Headers[name+"reason"])
		equal(queue, found.Headers[name+"queue"])
		equal("", found.Headers[name+"exchange"])
	}
}

func expired(_ *amqp.Connection, channel *amqp.Channel) {
	// It dies in a circle: what waited comes back to where it was first.
	first, second := unused("q"), unused("q")
	for queue, next := range map[string]string{first: second, second: first} {
		arguments := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": next}
		must(channel.QueueDeclare(queue, false, false, true, false, arguments))
	}
	send(channel, "", first, amqp.Publishing{Expiration: "100", Body: []byte("brief")})
	eventually("its first death", func() bool { return ready(channel, second) == 1 })
	once, _ := get(channel, second, false)
	equal("", once.Expiration)
	equal("expired", death(once, 0)["reason"])
	equal("100", death(once, 0)["original-expiration"])
	done(once.Reject(false))
	twice := arrived(channel, first)
	equal("rejected", death(twice, 0)["reason"])
	equal("expired", death(twice, 1)["reason"])
	equal("expired", twice.Headers["x-first-death-reason"])
	equal("rejected", twice.Headers["x-last-death-reason"])
}

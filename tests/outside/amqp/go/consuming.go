// Consuming: prefetch, acknowledgements, what comes back, and consumers that are cancelled.
package main

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

var consuming = map[string]scenario{
	"prefetch-bounds-what-is-outstanding":          prefetch,
	"several-are-acknowledged-at-once":             multiple,
	"what-is-handed-back-comes-again-in-its-place": requeue,
	"what-a-closed-channel-held-comes-again":       closedChannel,
	"a-deleted-queue-cancels-its-consumer":         cancelled,
	"an-exclusive-consumer-keeps-others-away":      exclusive,
	"an-unknown-delivery-tag-closes-the-channel":   unknownTag,
	"get-tells-what-is-left":                       left,
	"a-procedure-is-called-over-direct-reply-to":   call,
}

func prefetch(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "0", "1", "2", "3", "4")
	done(channel.Qos(2, 0, false))
	got := consume(channel, queue, false)
	next(got)
	second := next(got)
	silent(got)
	done(second.Ack(false))
	equal("2", string(next(got).Body))
	silent(got)
	// Of the whole channel: a second consumer shares the bound.
	bounded := must(connection.Channel())
	done(bounded.Qos(3, 0, true))
	one, other := declared(bounded, nil), declared(bounded, nil)
	publish(bounded, one, "a", "b")
	publish(bounded, other, "c", "d")
	first := consume(bounded, one, false)
	next(first)
	next(first)
	more := consume(bounded, other, false)
	equal("c", string(next(more).Body))
	silent(more)
}

func multiple(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "0", "1", "2", "3")
	got := consume(channel, queue, false)
	next(got)
	next(got)
	done(next(got).Ack(true))
	next(got)
	done(channel.Close())
	holds(must(connection.Channel()), queue, "3")
}

func requeue(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "0", "1", "2", "3")
	var got []amqp.Delivery
	for range 3 {
		found, there := get(channel, queue, false)
		check(there && !found.Redelivered, "none, or redelivered at first")
		got = append(got, found)
	}
	done(got[2].Reject(false))
	done(got[1].Nack(true, true))
	for _, body := range []string{"0", "1", "3"} {
		found := arrived(channel, queue)
		equal(body, string(found.Body))
		equal(body != "3", found.Redelivered)
	}
	empty(channel, queue)
}

func closedChannel(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "held")
	dying := must(connection.Channel())
	next(consume(dying, queue, false))
	done(dying.Close())
	equal(true, arrived(channel, queue).Redelivered)
	publish(channel, queue, "recovered")
	get(channel, queue, false)
	done(channel.Recover(true))
	equal(true, arrived(channel, queue).Redelivered)
}

func cancelled(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	tags := channel.NotifyCancel(make(chan string, 1))
	got := must(channel.Consume(queue, "mine", false, false, false, false, nil))
	must(must(connection.Channel()).QueueDelete(queue, false, false, false))
	equal("mine", next(tags))
	_, open := <-got
	equal(false, open)
	// The channel lives on.
	declared(channel, nil)
}

func exclusive(connection *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	must(channel.Consume(queue, "", false, true, false, false, nil))
	_, err := must(connection.Channel()).Consume(queue, "", false, false, false, false, nil)
	refused(403, "ACCESS_REFUSED - queue '"+queue+"' in vhost '/' in exclusive use", err)
}

func unknownTag(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	publish(channel, queue, "once")
	found, _ := get(channel, queue, false)
	closes(406, "PRECONDITION_FAILED - unknown delivery tag 1", channel, func() {
		done(found.Ack(false))
		done(found.Ack(false))
	})
}

func left(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	empty(channel, queue)
	publish(channel, queue, "0", "1", "2")
	for number := range 3 {
		found, there := get(channel, queue, true)
		check(there, "nothing is there")
		equal(uint32(2-number), found.MessageCount)
		equal(queue, found.RoutingKey)
		equal(uint64(number+1), found.DeliveryTag)
	}
}

func call(connection *amqp.Connection, client *amqp.Channel) {
	server := must(connection.Channel())
	calls := declared(server, nil)
	answers := consume(client, "amq.rabbitmq.reply-to", true)
	asked := amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "7", Body: []byte("ping")}
	send(client, "", calls, asked)
	request := arrived(server, calls)
	check(strings.HasPrefix(request.ReplyTo, "amq.rabbitmq.reply-to."), "%s", request.ReplyTo)
	must(server.QueueDeclarePassive(request.ReplyTo, false, false, false, false, nil))
	send(server, "", request.ReplyTo, amqp.Publishing{CorrelationId: request.CorrelationId, Body: []byte("pong")})
	answer := next(answers)
	equal("pong", string(answer.Body))
	equal("7", answer.CorrelationId)
	without := must(connection.Channel())
	closes(406, "PRECONDITION_FAILED - fast reply consumer does not exist", without, func() {
		send(without, "", calls, asked)
	})
}

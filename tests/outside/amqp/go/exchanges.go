// Exchanges: what is routed where.
package main

import (
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

var exchanges = map[string]scenario{
	"a-topic-exchange-matches-words":                topic,
	"a-headers-exchange-matches-all-or-any":         headers,
	"exchanges-are-bound-to-exchanges":              bound,
	"an-alternate-exchange-takes-what-nobody-wants": alternate,
}

func exchange(channel *amqp.Channel, kind string, arguments amqp.Table) string {
	name := unused("e")
	done(channel.ExchangeDeclare(name, kind, false, true, false, false, arguments))
	return name
}

// Publish a message for each key, which it has as its body.
func route(channel *amqp.Channel, exchange string, keys ...string) {
	for _, key := range keys {
		send(channel, exchange, key, amqp.Publishing{Body: []byte(key)})
	}
}

func topic(_ *amqp.Connection, channel *amqp.Channel) {
	name := exchange(channel, "topic", nil)
	orange, second := declared(channel, nil), declared(channel, nil)
	done(channel.QueueBind(orange, "*.orange.*", name, false, nil))
	done(channel.QueueBind(second, "*.*.rabbit", name, false, nil))
	done(channel.QueueBind(second, "lazy.#", name, false, nil))
	route(channel, name, "quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox",
		"lazy.pink.rabbit", "quick.brown.fox", "orange", "lazy.orange.male.rabbit", "lazy")
	holds(channel, orange, "quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox")
	holds(channel, second, "quick.orange.rabbit", "lazy.orange.elephant", "lazy.brown.fox", "lazy.pink.rabbit",
		"lazy.orange.male.rabbit", "lazy")
	done(channel.QueueUnbind(second, "lazy.#", name, nil))
	route(channel, name, "lazy.brown.fox", "slow.pink.rabbit")
	holds(channel, second, "slow.pink.rabbit")
}

func headers(_ *amqp.Connection, channel *amqp.Channel) {
	name := exchange(channel, "headers", nil)
	queues := map[string]string{}
	for _, match := range []string{"all", "any"} {
		queues[match] = declared(channel, nil)
		arguments := amqp.Table{"x-match": match, "format": "pdf", "pages": int32(2)}
		done(channel.QueueBind(queues[match], "", name, false, arguments))
	}
	for at, given := range []amqp.Table{
		{"format": "pdf", "pages": int32(2), "more": "x"},
		{"format": "pdf", "pages": int32(3)},
		// A number is a number, however many bytes it has.
		{"format": "zip", "pages": int64(2)},
		{"format": "zip"},
	} {
		send(channel, name, "", amqp.Publishing{Headers: given, Body: []byte(strconv.Itoa(at))})
	}
	holds(channel, queues["all"], "0")
	holds(channel, queues["any"], "0", "1", "2")
}

func bound(_ *amqp.Connection, channel *amqp.Channel) {
	source, destination := exchange(channel, "topic", nil), exchange(channel, "fanout", nil)
	queue := declared(channel, nil)
	done(channel.ExchangeBind(destination, "orders.*", source, false, nil))
	done(channel.QueueBind(queue, "", destination, false, nil))
	// Once, over however many ways it comes.
	done(channel.QueueBind(queue, "orders.paid", source, false, nil))
	route(channel, source, "orders.paid", "letters.sent", "orders.sent")
	holds(channel, queue, "orders.paid", "orders.sent")
	done(channel.ExchangeUnbind(destination, "orders.*", source, false, nil))
	route(channel, source, "orders.sent", "orders.paid")
	holds(channel, queue, "orders.paid")
}

func alternate(_ *amqp.Connection, channel *amqp.Channel) {
	rest := exchange(channel, "fanout", nil)
	name := exchange(channel, "direct", amqp.Table{"alternate-exchange": rest})
	wanted, unwanted := declared(channel, nil), declared(channel, nil)
	done(channel.QueueBind(wanted, "wanted", name, false, nil))
	done(channel.QueueBind(unwanted, "", rest, false, nil))
	route(channel, name, "wanted", "else")
	holds(channel, wanted, "wanted")
	holds(channel, unwanted, "else")
}

// Connecting, being refused, and what becomes of a connection.
package main

import (
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var connections = map[string]scenario{
	"the-server-says-what-it-can":                   serverProperties,
	"a-wrong-password-is-refused":                   wrongPassword,
	"an-unknown-virtual-host-is-refused":            unknownVirtualHost,
	"heartbeats-keep-an-idle-connection":            heartbeats,
	"a-cut-connection-is-made-again":                cut,
	"a-refusal-closes-its-channel-alone":            refusal,
	"what-is-not-implemented-closes-the-connection": immediate,
}

func serverProperties(connection *amqp.Connection, _ *amqp.Channel) {
	equal("RabbitMQ", connection.Properties["product"])
	equal("4.0.5", connection.Properties["version"])
	capabilities := connection.Properties["capabilities"].(amqp.Table)
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
		"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
		"direct_reply_to",
	} {
		equal(true, capabilities[name])
	}
	equal(uint16(2047), connection.Config.ChannelMax)
	equal(131072, connection.Config.FrameSize)
	equal(10*time.Second, connection.Config.Heartbeat) // The client asks for less than the broker's 60.
}

func wrongPassword(_ *amqp.Connection, _ *amqp.Channel) {
	_, err := amqp.Dial(strings.Replace(url, "guest:guest", "guest:wrong", 1))
	// The client has words of its own for it, and no others.
	refused(403, "username or password not allowed", err)
}

func unknownVirtualHost(_ *amqp.Connection, _ *amqp.Channel) {
	_, err := amqp.DialConfig(url, amqp.Config{Vhost: "nowhere"})
	refused(530, "NOT_ALLOWED - vhost nowhere not found", err)
}

func heartbeats(_ *amqp.Connection, _ *amqp.Channel) {
	connection := must(amqp.DialConfig(url, amqp.Config{Heartbeat: time.Second}))
	equal(time.Second, connection.Config.Heartbeat)
	time.Sleep(4 * time.Second)
	declared(must(connection.Channel()), nil)
	done(connection.Close())
}

// Connections are cut and made anew as a service does it: it waits for the end, and dials again.
func cut(_ *amqp.Connection, publishing *amqp.Channel) {
	queue := unused("q")
	var socket net.Conn
	dial := amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		var err error
		socket, err = amqp.DefaultDial(most)(network, address)
		return socket, err
	}}
	for _, again := range []bool{false, true} {
		connection := must(amqp.DialConfig(url, dial))
		channel := must(connection.Channel())
		must(channel.QueueDeclare(queue, false, false, false, false, amqp.Table{"x-expires": int32(60_000)}))
		got := consume(channel, queue, false)
		if !again {
			publish(publishing, queue, "held")
		}
		delivery := next(got)
		equal("held", string(delivery.Body))
		equal(again, delivery.Redelivered)
		ended := connection.NotifyClose(make(chan *amqp.Error, 1))
		done(socket.Close())
		check(next(ended) != nil, "an end without an error")
	}
	must(publishing.QueueDelete(queue, false, false, false))
}

func refusal(connection *amqp.Connection, channel *amqp.Channel) {
	still := must(connection.Channel())
	_, err := channel.QueueDeclarePassive("none", false, false, false, false, nil)
	refused(404, "NOT_FOUND - no queue 'none' in vhost '/'", err)
	check(channel.IsClosed(), "the channel is open still")
	channel = must(connection.Channel())
	err = channel.ExchangeDeclarePassive("none", "direct", false, false, false, false, nil)
	refused(404, "NOT_FOUND - no exchange 'none' in vhost '/'", err)
	channel = must(connection.Channel())
	closes(404, "NOT_FOUND - no exchange 'none' in vhost '/'", channel, func() {
		send(channel, "none", "key", amqp.Publishing{})
	})
	err = must(connection.Channel()).ExchangeDeclare("amq.mine", "direct", false, false, false, false, nil)
	refused(403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'", err)
	declared(still, nil)
}

func immediate(connection *amqp.Connection, channel *amqp.Channel) {
	closes(540, "NOT_IMPLEMENTED - immediate=true", channel, func() {
		done(channel.Publish("", "q", false, true, amqp.Publishing{Body: []byte("now")}))
	})
	eventually("the connection's end", connection.IsClosed)
}

// Publishing: confirms, returns, transactions, bodies and properties.
package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const confirmed = 500

var publishing = map[string]scenario{
	"every-message-is-confirmed":                          confirms,
	"what-cannot-be-routed-comes-back-before-its-confirm": returns,
	"bodies-of-many-frames-come-back-whole":               bodies,
	"properties-and-headers-come-back-as-they-were":       properties,
	"a-transaction-is-committed-and-another-rolled-back":  transactions,
	"a-full-queue-refuses-what-is-published":              full,
}

func confirms(_ *amqp.Connection, channel *amqp.Channel) {
	queue := unused("q")
	must(channel.QueueDeclare(queue, true, false, false, false, nil))
	done(channel.Confirm(false))
	var waiting []*amqp.DeferredConfirmation
	for number := range confirmed {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Append(nil, number)}
		waiting = append(waiting, must(channel.PublishWithDeferredConfirm("", queue, false, false, message)))
	}
	limit, end := context.WithTimeout(context.Background(), most)
	defer end()
	for number, one := range waiting {
		equal(uint64(number+1), one.DeliveryTag)
		equal(true, must(one.WaitContext(limit)))
	}
	equal(confirmed, must(channel.QueueDelete(queue, false, false, false)))
}

func returns(_ *amqp.Connection, channel *amqp.Channel) {
	done(channel.Confirm(false))
	back := channel.NotifyReturn(make(chan amqp.Return, 1))
	acks := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	done(channel.Publish("amq.direct", "nobody", true, false, amqp.Publishing{Body: []byte("back")}))
	equal(amqp.Confirmation{DeliveryTag: 1, Ack: true}, next(acks))
	// The client hands things on in the order they came: with the confirm here, the return has to be.
	select {
	case found := <-back:
		equal("312 NO_ROUTE amq.direct nobody back", fmt.Sprint(found.ReplyCode, " ", found.ReplyText, " ",
			found.Exchange, " ", found.RoutingKey, " ", string(found.Body)))
	default:
		panic("confirmed before it came back")
	}
}

func bodies(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	for _, size := range []int{0, 1, 131_063, 131_064, 131_065, 262_128, 1_000_000} {
		body := make([]byte, size)
		for at := range body {
			body[at] = byte(at % 251)
		}
		send(channel, "", queue, amqp.Publishing{Body: body})
		check(bytes.Equal(body, arrived(channel, queue).Body), "%d bytes came otherwise", size)
	}
}

func properties(_ *amqp.Connection, channel *amqp.Channel) {
	when := time.Unix(1_700_000_000, 0)
	headers := amqp.Table{
		"text": "größe", "bytes": []byte{0xff, 0}, "true": true, "nothing": nil, "byte": int8(-7),
		"unsigned": byte(200), "short": int16(-700), "int": int32(70_000), "long": int64(-(1 << 40)), "float": float32(0.5),
		"double": 0.1, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "time": when,
		"list":  []any{int32(1), "two", amqp.Table{"three": int32(3)}},
		"table": amqp.Table{"deep": amqp.Table{"deeper": "x"}},
	}
	queue := declared(channel, nil)
	sent := amqp.Publishing{
		Headers: headers, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 3,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: when, Type: "t",
		UserId: "guest", AppId: "a", Body: []byte("body"),
	}
	send(channel, "", queue, sent)
	found := arrived(channel, queue)
	for name, value := range headers {
		check(fmt.Sprintf("%T %v", value, value) == fmt.Sprintf("%T %v", found.Headers[name], found.Headers[name]),
			"%s: %v came", name, found.Headers[name])
	}
	equal(len(headers), len(found.Headers))
	equal(sent, amqp.Publishing{
		Headers: headers, ContentType: found.ContentType, ContentEncoding: found.ContentEncoding,
		DeliveryMode: found.DeliveryMode, Priority: found.Priority, CorrelationId: found.CorrelationId,
		ReplyTo: found.ReplyTo, Expiration: found.Expiration, MessageId: found.MessageId, Timestamp: found.Timestamp,
		Type: found.Type, UserId: found.UserId, AppId: found.AppId, Body: found.Body,
	})
}

func transactions(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, nil)
	done(channel.Tx())
	publish(channel, queue, "never")
	done(channel.TxRollback())
	publish(channel, queue, "kept")
	equal(0, ready(channel, queue))
	done(channel.TxCommit())
	found, there := get(channel, queue, false)
	check(there, "nothing was committed")
	done(found.Ack(false))
	done(channel.TxRollback())
	// The acknowledgement was taken back: it may be said once more, and holds then.
	done(channel.Ack(found.DeliveryTag, false))
	done(channel.TxCommit())
	empty(channel, queue)
	refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", channel.Confirm(false))
}

func full(_ *amqp.Connection, channel *amqp.Channel) {
	queue := declared(channel, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	done(channel.Confirm(false))
	heard := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	publish(channel, queue, "a")
	equal(amqp.Confirmation{DeliveryTag: 1, Ack: true}, next(heard))
	publish(channel, queue, "b")
	equal(amqp.Confirmation{DeliveryTag: 2, Ack: false}, next(heard))
	holds(channel, queue, "a")
}

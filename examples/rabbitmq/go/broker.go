package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/streadway/amqp"
)

// A connection and its one channel.
type broker struct {
	connection *amqp.Connection
	channel    *amqp.Channel
}

func dial(url string) (*broker, error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	channel, err := connection.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	return &broker{connection, channel}, nil
}

func (b *broker) close() {
	// Both sides agree on the end: what was published has arrived by then.
	b.connection.Close()
}

// Not kept over a restart, and gone with its last consumer. Who declares it first makes it.
func (b *broker) declareQueue(name string) error {
	durable, autoDelete, exclusive, noWait := false, true, false, false
	_, err := b.channel.QueueDeclare(name, durable, autoDelete, exclusive, noWait, nil)
	return err
}

func (b *broker) declareExchange(name, kind string) error {
	durable, autoDelete, internal, noWait := true, false, false, false
	return b.channel.ExchangeDeclare(name, kind, durable, autoDelete, internal, noWait, nil)
}

func (b *broker) bind(queue, key, exchange string) error {
	return b.channel.QueueBind(queue, key, exchange, false, nil)
}

// The next message comes when the one before was acknowledged.
func (b *broker) takeOneAtATime() error {
	return b.channel.Qos(1, 0, false)
}

func (b *broker) publish(exchange, key, text string) error {
	body, err := json.Marshal(text)
	if err != nil {
		return err
	}
	mandatory, immediate := false, false
	return b.channel.Publish(exchange, key, mandatory, immediate, amqp.Publishing{
		ContentType: "application/json", Body: body,
	})
}

// Hands on what comes until the connection ends.
func (b *broker) consume(queue string, autoAck bool, take func(key, text string)) error {
	deliveries, err := b.channel.Consume(queue, "", autoAck, false, false, false, nil)
	if err != nil {
		return err
	}
	fmt.Println("waits for messages; Ctrl-C ends it")
	for delivery := range deliveries {
		var text string
		if err := json.Unmarshal(delivery.Body, &text); err != nil {
			return err
		}
		take(delivery.RoutingKey, text)
		if !autoAck {
			if err := delivery.Ack(false); err != nil {
				return err
			}
		}
	}
	return errors.New("the connection has ended")
}

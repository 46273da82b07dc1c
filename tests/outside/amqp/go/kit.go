// What the scenarios share: messages, waiting and refusals. What does not hold panics, and is told by main.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	most    = 20 * time.Second
	silence = 300 * time.Millisecond
)

func must[T any](value T, err error) T {
	done(err)
	return value
}

func done(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, because string, more ...any) {
	if !holds {
		panic(fmt.Sprintf(because, more...))
	}
}

func equal(expected, found any) {
	check(reflect.DeepEqual(expected, found), "%v was expected, and %v came", expected, found)
}

func unused(kind string) string {
	return fmt.Sprintf("%s-%016x", kind, rand.Uint64())
}

// A queue that goes with its connection; its name.
func declared(channel *amqp.Channel, arguments amqp.Table) string {
	return must(channel.QueueDeclare(unused("q"), false, false, true, false, arguments)).Name
}

func send(channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	done(channel.PublishWithContext(context.Background(), exchange, key, false, false, message))
}

func publish(channel *amqp.Channel, queue string, bodies ...string) {
	for _, body := range bodies {
		send(channel, "", queue, amqp.Publishing{Body: []byte(body)})
	}
}

func consume(channel *amqp.Channel, queue string, acknowledged bool) <-chan amqp.Delivery {
	return must(channel.Consume(queue, "", acknowledged, false, false, false, nil))
}

func next[T any](got <-chan T) T {
	select {
	case found, open := <-got:
		check(open, "the channel has ended")
		return found
	case <-time.After(most):
		panic("nothing came")
	}
}

func silent[T any](got <-chan T) {
	select {
	case found, open := <-got:
		check(!open, "more came than may: %v", found)
	case <-time.After(silence):
	}
}

// A message, where there is one now.
func get(channel *amqp.Channel, queue string, acknowledged bool) (amqp.Delivery, bool) {
	found, there, err := channel.Get(queue, acknowledged)
	done(err)
	return found, there
}

// A message; waits until there is one.
func arrived(channel *amqp.Channel, queue string) (found amqp.Delivery) {
	eventually("a message in "+queue, func() (there bool) {
		found, there = get(channel, queue, true)
		return
	})
	return
}

func empty(channel *amqp.Channel, queue string) {
	_, there := get(channel, queue, true)
	check(!there, "%s is not empty", queue)
}

// The queue holds these bodies and no more.
func holds(channel *amqp.Channel, queue string, bodies ...string) {
	for _, body := range bodies {
		equal(body, string(arrived(channel, queue).Body))
	}
	empty(channel, queue)
}

func ready(channel *amqp.Channel, queue string) int {
	return must(channel.QueueDeclarePassive(queue, false, false, true, false, nil)).Messages
}

func eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(most); !holds(); time.Sleep(10 * time.Millisecond) {
		check(time.Now().Before(deadline), "never came: %s", what)
	}
}

// An error with this code and text.
func refused(code int, text string, err error) {
	var closed *amqp.Error
	check(errors.As(err, &closed), "%d was expected, and %v came", code, err)
	equal(fmt.Sprint(code, " ", text), fmt.Sprint(closed.Code, " ", closed.Reason))
}

// The channel's end, which what `last` sends leads to.
func closes(code int, text string, channel *amqp.Channel, last func()) {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	last()
	refused(code, text, next(closed))
}

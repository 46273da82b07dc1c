// One program for each side of the ways RabbitMQ is used, with github.com/streadway/amqp:
//
//	go run . URL send QUEUE TEXT...                         one sends, one receives
//	go run . URL receive QUEUE
//	go run . URL work QUEUE                                 several share a queue, the busy get less
//	go run . URL publish EXCHANGE KIND KEY TEXT...          KIND: fanout, direct or topic
//	go run . URL subscribe EXCHANGE KIND QUEUE KEY...
//
// Texts travel as JSON. Whoever receives prints them until Ctrl-C.
package main

import (
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: URL send|receive|work|publish|subscribe NAME ...")
	}
	url, what, name, rest := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	var err error
	switch {
	case what == "send":
		err = send(url, name, rest)
	case what == "receive":
		err = receive(url, name, false)
	case what == "work":
		err = receive(url, name, true)
	case what == "publish" && len(rest) > 1:
		err = publish(url, name, rest[0], rest[1], rest[2:])
	case what == "subscribe" && len(rest) > 1:
		err = subscribe(url, name, rest[0], rest[1], rest[2:])
	default:
		log.Fatalf("%s is not known, or something is missing behind it", what)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func send(url, queue string, texts []string) error {
	broker, err := dial(url)
	if err != nil {
		return err
	}
	defer broker.close()
	if err := broker.declareQueue(queue); err != nil {
		return err
	}
	for _, text := range texts {
		// The exchange without a name: its keys are the queues' names.
		if err := broker.publish("", queue, text); err != nil {
			return err
		}
	}
	return nil
}

// A worker takes its time for what it got, and is given the next one when it has acknowledged.
func receive(url, queue string, works bool) error {
	broker, err := dial(url)
	if err != nil {
		return err
	}
	defer broker.close()
	if err := broker.declareQueue(queue); err != nil {
		return err
	}
	if works {
		if err := broker.takeOneAtATime(); err != nil {
			return err
		}
	}
	return broker.consume(queue, !works, func(_, text string) {
		fmt.Println(text)
		if works {
			time.Sleep(time.Duration(len(text)) * 10 * time.Millisecond)
		}
	})
}

func publish(url, exchange, kind, key string, texts []string) error {
	broker, err := dial(url)
	if err != nil {
		return err
	}
	defer broker.close()
	if err := broker.declareExchange(exchange, kind); err != nil {
		return err
	}
	for _, text := range texts {
		if err := broker.publish(exchange, key, text); err != nil {
			return err
		}
	}
	return nil
}

func subscribe(url, exchange, kind, queue string, keys []string) error {
	broker, err := dial(url)
	if err != nil {
		return err
	}
	defer broker.close()
	if err := broker.declareExchange(exchange, kind); err != nil {
		return err
	}
	if err := broker.declareQueue(queue); err != nil {
		return err
	}
	for _, key := range keys {
		if err := broker.bind(queue, key, exchange); err != nil {
			return err
		}
	}
	return broker.consume(queue, true, func(key, text string) { fmt.Printf("%s: %s\n", key, text) })
}

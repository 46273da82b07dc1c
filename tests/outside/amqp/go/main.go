// RabbitMQ's Go client through named scenarios: go run . URL NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Each has a connection of its own.
package main

import (
	"fmt"
	"maps"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

type scenario func(*amqp.Connection, *amqp.Channel)

var url string

func main() {
	url = os.Args[1]
	all := map[string]scenario{}
	for _, some := range []map[string]scenario{connections, publishing, consuming, queues, exchanges} {
		maps.Copy(all, some)
	}
	status := 0
	for _, name := range os.Args[2:] {
		if why := play(all[name]); why != "" {
			fmt.Printf("failed %s: %s\n", name, why)
			status = 1
		} else {
			fmt.Printf("ok %s\n", name)
		}
	}
	os.Exit(status)
}

// What is wrong, nothing where the scenario holds.
func play(run scenario) (why string) {
	connection := must(amqp.Dial(url))
	defer connection.Close()
	defer func() {
		if wrong := recover(); wrong != nil {
			why = fmt.Sprint(wrong)
		}
	}()
	run(connection, must(connection.Channel()))
	return
}

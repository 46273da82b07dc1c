// A load generator for brokers that speak AMQP 0-9-1.
//
//	amqpload publish|drain|both|latency|declare|remove -address HOST:PORT -queue NAME ...
//	amqpload sink -size BYTES
//
// Prints one line of JSON: messages, seconds, its own CPU seconds. All messages are persistent, all
// queues durable, and user and password are guest. `sink` is the broker that does no work; it
// prints its address first.

package main

import (
	"encoding/json"
	"flag"
	"os"
	"syscall"
)

type options struct {
	address, queue, kind   string
	size, prefetch, fanout int
	connections            int
	messages, window       int64
	seconds, rate          float64
}

type result struct {
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

func parsed(words []string) options {
	var o options
	flags := flag.NewFlagSet("amqpload", flag.ExitOnError)
	flags.StringVar(&o.address, "address", "", "host:port of the broker")
	flags.StringVar(&o.queue, "queue", "bench", "queue, or exchange with -fanout")
	flags.StringVar(&o.kind, "kind", "", "x-queue-type; none: left out")
	flags.IntVar(&o.size, "size", 16, "bytes of a body")
	flags.IntVar(&o.prefetch, "prefetch", 200, "messages a consumer may hold")
	flags.IntVar(&o.fanout, "fanout", 0, "queues bound to a fanout exchange")
	flags.IntVar(&o.connections, "connections", 1, "of declare")
	flags.Int64Var(&o.messages, "messages", 0, "so many messages, or queues; 0: by time")
	flags.Int64Var(&o.window, "window", 0, "unconfirmed messages at most; 0: no confirms")
	flags.Float64Var(&o.seconds, "seconds", 4, "how long")
	flags.Float64Var(&o.rate, "rate", 5000, "messages a second, of latency")
	check(flags.Parse(words))
	return o
}

func main() {
	if len(os.Args) < 2 {
		fail("amqpload publish|drain|both|latency|declare|remove|sink ...")
	}
	o := parsed(os.Args[2:])
	var found result
	switch os.Args[1] {
	case "publish":
		found = publish(o)
	case "drain":
		found = drain(o)
	case "both":
		found = both(o)
	case "latency":
		found = latency(o)
	case "declare":
		found = declareMany(o)
	case "remove":
		dial(o.address).remove(o.queue, o.fanout)
	case "sink":
		sink(o)
	default:
		fail("no such measurement: " + os.Args[1])
	}
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	found.CPU = seconds(used.Utime) + seconds(used.Stime)
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func seconds(time syscall.Timeval) float64 {
	return float64(time.Sec) + float64(time.Usec)/1e6
}

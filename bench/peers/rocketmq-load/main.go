// A load generator for brokers that speak RocketMQ's remoting protocol.
//
//	remotingload create|remove|send|pull|commit -name-server HOST:PORT -topic NAME ...
//
// Prints one line of JSON: messages, seconds, its own CPU seconds. Requests are frames that are made
// once; of a frame that is sent again only the opaque, the message's id and the offset change.

package main

import (
	"encoding/json"
	"flag"
	"os"
	"syscall"
)

type options struct {
	nameServer, topic string
	queues, size      int
	connections       int
	messages, window  int64
	seconds           float64
}

type result struct {
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"`
	Failed   int64   `json:"failed"`
}

func parsed(words []string) options {
	var o options
	flags := flag.NewFlagSet("remotingload", flag.ExitOnError)
	flags.StringVar(&o.nameServer, "name-server", "", "host:port of the name server")
	flags.StringVar(&o.topic, "topic", "bench", "topic")
	flags.IntVar(&o.queues, "queues", 4, "queues of the topic")
	flags.IntVar(&o.size, "size", 1024, "bytes of a body")
	flags.IntVar(&o.connections, "connections", 1, "of send")
	flags.Int64Var(&o.messages, "messages", 0, "so many messages; 0: by time")
	flags.Int64Var(&o.window, "window", 512, "requests without an answer, at most, on a connection")
	flags.Float64Var(&o.seconds, "seconds", 4, "how long")
	check(flags.Parse(words))
	return o
}

func main() {
	if len(os.Args) < 2 {
		fail("remotingload create|remove|send|pull|commit ...")
	}
	o := parsed(os.Args[2:])
	var found result
	switch os.Args[1] {
	case "create":
		create(o)
	case "remove":
		remove(o)
	case "send":
		found = send(o)
	case "pull":
		found = pull(o)
	case "commit":
		found = commit(o)
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

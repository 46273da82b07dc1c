// Scenarios of rocketmq-client-go: ./scenarios ADDRESS SCENARIO TOPIC. Status 0: it holds.
package main

import (
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var names primitive.NamesrvAddr
var topic string

var scenarios = map[string]func(){
	"sync-send":       syncSend,
	"async-send":      asyncSend,
	"one-way-send":    oneWaySend,
	"batch-send":      batchSend,
	"request-reply":   requestReply,
	"push":            push,
	"pull":            pull,
	"lite-pull":       litePull,
	"orderly":         orderly,
	"tags":            tags,
	"sql92":           sql92,
	"shared-group":    sharedGroup,
	"returning-group": returningGroup,
	"broadcasting":    broadcasting,
	"namespaces":      namespaces,
	"retries":         retries,
	"delays":          delays,
	"transactions":    transactions,
}

func main() {
	rlog.SetLogLevel("fatal")
	names, topic = primitive.NamesrvAddr{os.Args[1]}, os.Args[3]
	scenarios[os.Args[2]]()
	fmt.Println("HOLDS", os.Args[2])
	os.Exit(0)
}

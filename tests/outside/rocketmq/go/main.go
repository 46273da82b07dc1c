// A scenario of rocketmq-client-go: ./client ADDRESS. Status 0: it holds.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const topic = "Orders"

func check(holds bool, claim string, about ...interface{}) {
	if !holds {
		fmt.Println("BROKEN", claim, about)
		os.Exit(1)
	}
}

func main() {
	rlog.SetLogLevel("fatal")
	names := primitive.NamesrvAddr{os.Args[1]}
	every := context.Background()

	p, err := rocketmq.NewProducer(producer.WithNameServer(names), producer.WithGroupName("PG"),
		producer.WithSendMsgTimeout(20*time.Second))
	check(err == nil && p.Start() == nil, "the producer starts", err)
	first := primitive.NewMessage(topic, []byte("sync größe"))
	first.WithTag("A").WithKeys([]string{"k1"}).WithProperty("colour", "red")
	result, err := p.SendSync(every, first)
	check(err == nil && result.Status == primitive.SendOK, "sync", err)
	sent := make(chan error, 1)
	err = p.SendAsync(every, func(_ context.Context, r *primitive.SendResult, e error) { sent <- e },
		primitive.NewMessage(topic, []byte("async")))
	check(err == nil && <-sent == nil, "async", err)
	check(p.SendOneWay(every, primitive.NewMessage(topic, []byte("oneway"))) == nil, "oneway")
	result, err = p.SendSync(every, primitive.NewMessage(topic, []byte("batch1")),
		primitive.NewMessage(topic, []byte("batch2")))
	check(err == nil && len(strings.Split(result.OffsetMsgID, ",")) == 2, "batch", err)

	var lock sync.Mutex
	got := map[string]*primitive.MessageExt{}
	count := 0
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer(names), consumer.WithGroupName("CG"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance("one"))
	check(err == nil, "a consumer", err)
	err = c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context,
		messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range messages {
			got[string(message.Body)] = message
			count++
		}
		return consumer.ConsumeSuccess, nil
	})
	check(err == nil && c.Start() == nil, "the consumer starts", err)
	for n := 0; n < 600; n++ {
		time.Sleep(100 * time.Millisecond)
		lock.Lock()
		some := len(got)
		lock.Unlock()
		if some == 5 {
			break
		}
	}
	lock.Lock()
	check(len(got) == 5 && count == 5, "each once", len(got), count)
	message := got["sync größe"]
	check(message != nil && message.GetTags() == "A" && message.GetKeys() == "k1" &&
		message.GetProperty("colour") == "red", "properties", message)
	lock.Unlock()
	check(c.Shutdown() == nil && p.Shutdown() == nil, "shutdown")
	fmt.Println("HOLDS")
}

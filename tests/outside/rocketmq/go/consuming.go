package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func push() {
	p := newProducer()
	send(p, message("A", "k1", "größe"))
	coloured := message("B", "k2", "red")
	coloured.WithProperty("größe", "3")
	result := send(p, coloured)
	c, got := consumes("push", consumer.MessageSelector{})
	message1 := got.wait(2)["red"]
	check(message1.GetTags() == "B" && message1.GetKeys() == "k2" && message1.GetProperty("größe") == "3" &&
		message1.MsgId == result.MsgID && message1.ReconsumeTimes == 0, "properties", message1)
	send(p, message("A", "k3", "later"))
	check(got.wait(3)["later"] != nil, "by the parked pull")
	stop(c, p)
}

func pull() {
	p := newProducer()
	queues := map[int]*primitive.MessageQueue{}
	for n := 0; n < 12; n++ {
		queue := send(p, message([]string{"A", "B"}[n%2], "k", strconv.Itoa(n))).MessageQueue
		queues[queue.QueueId] = queue
	}
	c, err := rocketmq.NewPullConsumer(consumer.WithNameServer(names), consumer.WithGroupName(group("pull")))
	check(err == nil, "a consumer", err)
	check(c.Subscribe(topic, consumer.MessageSelector{}) == nil && c.Start() == nil, "the consumer starts")
	got, ends := map[string]bool{}, map[int]int64{}
	for id, queue := range queues {
		result, err := c.PullFrom(every, queue, 0, 32)
		check(err == nil && result.Status == primitive.PullFound, "a pull", err, result)
		for _, message := range result.GetMessageExts() {
			got[string(message.Body)] = true
		}
		ends[id] = result.NextBeginOffset
		check(c.UpdateOffset(queue, ends[id]) == nil, "an offset")
	}
	check(len(got) == 12, "each once", got)
	for id, queue := range queues { // one of them: the broker waits 20 s for a message
		result, err := c.PullFrom(every, queue, ends[id], 32)
		check(err == nil && result.Status == primitive.PullNoNewMsg, "at the end", err, result)
		break
	}
	check(c.PersistOffset(every, topic) == nil, "offsets are stored")
	stop(c, p)
}

func litePull() {
	p := newProducer()
	for n := 0; n < 20; n++ {
		send(p, message("A", "k", strconv.Itoa(n)))
	}
	c, err := rocketmq.NewPullConsumer(consumer.WithNameServer(names), consumer.WithGroupName(group("lite")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err == nil, "a consumer", err)
	check(c.Subscribe(topic, consumer.MessageSelector{}) == nil && c.Start() == nil, "the consumer starts")
	got := map[string]bool{}
	for n := 0; n < 60 && len(got) < 20; n++ {
		polled, err := c.Poll(every, time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		check(err == nil, "a poll", err)
		for _, message := range polled.GetMsgList() {
			got[string(message.Body)] = true
		}
		c.ACK(every, polled, consumer.ConsumeSuccess)
	}
	check(len(got) == 20, "each", got)
	stop(c, p)
}

func orderly() {
	p := newProducer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for n := 0; n < 100; n++ {
		send(p, message("A", "k", strconv.Itoa(n)).WithShardingKey(strconv.Itoa(n%4)))
	}
	c, got := consumes("orderly", consumer.MessageSelector{}, consumer.WithConsumerOrder(true))
	got.wait(100)
	last := map[int]int{}
	for _, message := range got.all() {
		number, _ := strconv.Atoi(string(message.Body))
		before, some := last[number%4]
		check(!some || before < number, "in order", before, number)
		last[number%4] = number
	}
	stop(c, p)
}

func tags() {
	p := newProducer()
	for _, tag := range []string{"A", "B", "C", "AaAa", "BBBB"} {
		send(p, message(tag, "k", tag))
	}
	c, got := consumes("ab", consumer.MessageSelector{Type: consumer.TAG, Expression: "A || B"})
	bodies := got.wait(2)
	check(bodies["A"] != nil && bodies["B"] != nil, "A or B", bodies)
	same, some := consumes("hash", consumer.MessageSelector{Type: consumer.TAG, Expression: "AaAa"})
	check(some.wait(1)["AaAa"] != nil, "of two tags with one hash")
	stop(same, c, p)
}

func sql92() {
	p := newProducer()
	for n := 0; n < 10; n++ {
		numbered := message("A", "k", strconv.Itoa(n))
		numbered.WithProperty("n", strconv.Itoa(n))
		send(p, numbered)
	}
	send(p, message("A", "k", "none"))
	c, got := consumes("sql", consumer.MessageSelector{Type: consumer.SQL92, Expression: "n BETWEEN 3 AND 4 OR n IS NULL OR n IN ('9')"})
	bodies := got.wait(4)
	check(bodies["3"] != nil && bodies["4"] != nil && bodies["9"] != nil && bodies["none"] != nil, "got", bodies)
	stop(c, p)
}

func sharedGroup() {
	p := newProducer()
	send(p, message("A", "k", "0"))
	one, first := consumes("shared", consumer.MessageSelector{}, consumer.WithInstance("one"))
	two, second := consumes("shared", consumer.MessageSelector{}, consumer.WithInstance("two"))
	time.Sleep(25 * time.Second) // the client rebalances every 20 s
	first.clear()
	second.clear()
	for n := 1; n <= 100; n++ {
		send(p, message("A", "k", strconv.Itoa(n)))
	}
	for n := 0; n < 300 && len(first.all())+len(second.all()) < 100; n++ {
		time.Sleep(100 * time.Millisecond)
	}
	queues := map[int]bool{}
	for _, message := range first.all() {
		queues[message.Queue.QueueId] = true
	}
	for _, message := range second.all() {
		check(!queues[message.Queue.QueueId], "each queue has one member", message)
	}
	check(len(first.all()) > 0 && len(second.all()) > 0, "both have queues")
	check(len(first.all())+len(second.all()) == 100, "each once", len(first.all()), len(second.all()))
	stop(one, two, p)
}

func returningGroup() {
	p := newProducer()
	for n := 0; n < 20; n++ {
		send(p, message("A", "k", "first"+strconv.Itoa(n)))
	}
	c, got := consumes("returns", consumer.MessageSelector{}, consumer.WithInstance("one"))
	got.wait(20)
	stop(c)
	for n := 0; n < 20; n++ {
		send(p, message("A", "k", "away"+strconv.Itoa(n)))
	}
	c, got = consumes("returns", consumer.MessageSelector{}, consumer.WithInstance("two"))
	for body := range got.wait(20) {
		check(body[:4] == "away", "where it was", body)
	}
	stop(c, p)
}

func broadcasting() {
	p := newProducer()
	send(p, message("A", "k", "0"))
	one, first := consumes("broadcasting", consumer.MessageSelector{}, consumer.WithInstance("one"),
		consumer.WithConsumerModel(consumer.BroadCasting))
	two, second := consumes("broadcasting", consumer.MessageSelector{}, consumer.WithInstance("two"),
		consumer.WithConsumerModel(consumer.BroadCasting))
	time.Sleep(3 * time.Second)
	first.clear()
	second.clear()
	for n := 1; n <= 20; n++ {
		send(p, message("A", "k", strconv.Itoa(n)))
	}
	first.wait(20)
	second.wait(20)
	stop(one, two, p)
}

func namespaces() {
	p := newProducer()
	send(p, message("A", "k", "outside"))
	inside := newProducer(producer.WithNamespace("INST"), producer.WithInstanceName("inside"))
	send(inside, message("A", "k", "inside"))
	c, got := consumes("namespaces", consumer.MessageSelector{}, consumer.WithNamespace("INST"))
	check(got.wait(1)["inside"] != nil, "the namespace's message")
	var lock sync.Mutex
	same := map[string]bool{}
	plain := newConsumer("plain")
	err := plain.Subscribe("INST%"+topic, consumer.MessageSelector{}, func(_ context.Context, each ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range each {
			same[string(message.Body)] = true
		}
		return consumer.ConsumeSuccess, nil
	})
	check(err == nil && plain.Start() == nil, "a plain consumer", err)
	time.Sleep(4 * time.Second)
	lock.Lock()
	check(len(same) == 1 && same["inside"], "INST%topic", same)
	lock.Unlock()
	stop(plain, c, inside, p)
}

package main

import (
	"context"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func retries() {
	p := newProducer()
	poison := message("A", "key", "poison")
	poison.WithProperty("größe", "3")
	sent := send(p, poison)
	got := &messages{}
	c := newConsumer("retries", consumer.WithMaxReconsumeTimes(2))
	err := c.Subscribe(topic, consumer.MessageSelector{}, func(about context.Context, each ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got.add(each...)
		state, _ := primitive.GetConcurrentlyCtx(about)
		state.DelayLevelWhenNextConsume = 1
		return consumer.ConsumeRetryLater, nil
	})
	check(err == nil && c.Start() == nil, "the consumer starts", err)
	got.wait(3)
	for n, message := range got.all() {
		check(int(message.ReconsumeTimes) == n && message.GetProperty("größe") == "3", "attempt", n, message)
	}
	stop(c)
	dead := &messages{}
	letters := newConsumer("letters")
	err = letters.Subscribe("%DLQ%"+group("retries"), consumer.MessageSelector{}, func(_ context.Context, each ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		dead.add(each...)
		return consumer.ConsumeSuccess, nil
	})
	check(err == nil && letters.Start() == nil, "the second consumer starts", err)
	letter := dead.wait(1)["poison"]
	check(letter != nil && letter.MsgId == sent.MsgID && letter.GetKeys() == "key", "the letter", letter)
	check(letter.GetProperty(primitive.PropertyRetryTopic) == topic, "its topic", letter)
	stop(letters, p)
}

func delays() {
	p := newProducer()
	send(p, message("A", "k", "first"))
	c, got := consumes("delays", consumer.MessageSelector{})
	got.wait(1)
	got.clear()
	begin := time.Now()
	send(p, message("A", "k", "level").WithDelayTimeLevel(2))
	send(p, message("A", "k", "now"))
	got.wait(2)
	all := got.all()
	check(string(all[0].Body) == "now" && string(all[1].Body) == "level", "order", all)
	check(got.at[1].Sub(begin) >= 5*time.Second, "early", got.at[1].Sub(begin))
	stop(c, p)
}

type decides struct {
	lock  sync.Mutex
	asked map[string]int
}

func (d *decides) ExecuteLocalTransaction(sent *primitive.Message) primitive.LocalTransactionState {
	switch string(sent.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decides) CheckLocalTransaction(sent *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.asked[string(sent.Body)]++
	if string(sent.Body) == "late commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transactions() {
	listener := &decides{asked: map[string]int{}}
	p, err := rocketmq.NewTransactionProducer(listener, producer.WithNameServer(names),
		producer.WithGroupName("PG_"+topic), producer.WithSendMsgTimeout(20*time.Second))
	check(err == nil && p.Start() == nil, "the producer starts", err)
	for _, body := range []string{"commit", "rollback", "late commit", "late rollback"} {
		result, err := p.SendMessageInTransaction(every, message("A", "k", body))
		check(err == nil && result.Status == primitive.SendOK, "a send", result, err)
	}
	c, got := consumes("transactions", consumer.MessageSelector{})
	got.wait(2)
	time.Sleep(3 * time.Second)
	bodies := got.wait(2)
	check(bodies["commit"] != nil && bodies["late commit"] != nil, "got", bodies)
	listener.lock.Lock()
	check(listener.asked["late commit"] > 0 && listener.asked["late rollback"] > 0 && len(listener.asked) == 2, "asked", listener.asked)
	listener.lock.Unlock()
	stop(c, p)
}

package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func syncSend() {
	p := newProducer()
	for _, body := range []string{"first", "größe", strings.Repeat("x", 100000)} {
		result := send(p, message("A", "k", body))
		check(len(result.OffsetMsgID) == 32, "the broker's id", result)
	}
	c, got := consumes("sync", consumer.MessageSelector{})
	bodies := got.wait(3)
	check(bodies["größe"] != nil && bodies[strings.Repeat("x", 100000)] != nil, "bodies")
	stop(c, p)
}

func asyncSend() {
	p := newProducer()
	sent := make(chan error, 50)
	for n := 0; n < 50; n++ {
		err := p.SendAsync(every, func(_ context.Context, r *primitive.SendResult, e error) { sent <- e },
			message("A", "k", string(rune('A'+n))))
		check(err == nil, "an async send", err)
	}
	for n := 0; n < 50; n++ {
		select {
		case err := <-sent:
			check(err == nil, "a callback", err)
		case <-time.After(30 * time.Second):
			check(false, "callbacks", n)
		}
	}
	c, got := consumes("async", consumer.MessageSelector{})
	got.wait(50)
	stop(c, p)
}

func oneWaySend() {
	p := newProducer()
	send(p, message("A", "k", "first"))
	for n := 0; n < 10; n++ {
		err := p.SendOneWay(every, message("A", "k", string(rune('A'+n))))
		check(err == nil, "a one-way send", err)
	}
	c, got := consumes("oneway", consumer.MessageSelector{})
	got.wait(11)
	stop(c, p)
}

func batchSend() {
	p := newProducer()
	var batch []*primitive.Message
	for n := 0; n < 10; n++ {
		batch = append(batch, message([]string{"A", "B"}[n%2], "k", string(rune('A'+n))))
	}
	result := send(p, batch...)
	check(len(strings.Split(result.OffsetMsgID, ",")) == 10, "an id for each", result)
	c, got := consumes("batch", consumer.MessageSelector{})
	got.wait(10)
	half, some := consumes("half", consumer.MessageSelector{Type: consumer.TAG, Expression: "B"})
	some.wait(5)
	stop(half, c, p)
}

func requestReply() {
	p := newProducer()
	send(p, message("A", "k", "first"))
	answering := newProducer(producer.WithInstanceName("answering"), producer.WithGroupName("PG_answering"))
	c := newConsumer("replies")
	err := c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, each ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, asked := range each {
			if asked.GetProperty(primitive.PropertyCorrelationID) == "" {
				continue
			}
			answer, err := consumer.CreateReplyMessage(asked, []byte("re: "+string(asked.Body)))
			if err == nil {
				answer.Body = []byte("re: " + string(asked.Body)) // 2.1.2 reads it as properties
				_, err = answering.SendSync(every, answer)
			}
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	check(err == nil && c.Start() == nil, "the consumer starts", err)
	time.Sleep(5 * time.Second) // the client sends its first heartbeat after a second
	var asking sync.WaitGroup
	for n := 0; n < 5; n++ {
		question := "question " + string(rune('0'+n))
		asking.Add(1)
		go func() {
			defer asking.Done()
			answer, err := p.Request(every, 20*time.Second, message("A", "k", question))
			check(err == nil && string(answer.Body) == "re: "+question, "an answer", err, answer)
		}()
	}
	asking.Wait()
	stop(c, answering, p)
}

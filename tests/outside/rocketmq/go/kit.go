package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var every = context.Background()

func check(holds bool, claim string, about ...interface{}) {
	if !holds {
		fmt.Println("BROKEN", claim, about)
		os.Exit(1)
	}
}

func group(name string) string {
	return "CG_" + name + "_" + topic
}

func newProducer(options ...producer.Option) rocketmq.Producer {
	made, err := rocketmq.NewProducer(append([]producer.Option{producer.WithNameServer(names),
		producer.WithGroupName("PG"), producer.WithSendMsgTimeout(20 * time.Second)}, options...)...)
	check(err == nil, "a producer", err)
	err = made.Start()
	check(err == nil, "the producer starts", err)
	return made
}

func message(tag, key, body string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body)).WithTag(tag).WithKeys([]string{key})
}

func send(from rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	result, err := from.SendSync(every, messages...)
	check(err == nil && result.Status == primitive.SendOK, "a sync send", result, err)
	return result
}

// Messages that a consumer has got, in their order.
type messages struct {
	lock sync.Mutex
	got  []*primitive.MessageExt
	at   []time.Time
}

func (m *messages) add(messages ...*primitive.MessageExt) int {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, message := range messages {
		m.got = append(m.got, message)
		m.at = append(m.at, time.Now())
	}
	return len(m.got)
}

func (m *messages) all() []*primitive.MessageExt {
	m.lock.Lock()
	defer m.lock.Unlock()
	return append([]*primitive.MessageExt{}, m.got...)
}

func (m *messages) clear() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.got, m.at = nil, nil
}

// wait returns the bodies when there are count of them, and no more after a second and a half.
func (m *messages) wait(count int) map[string]*primitive.MessageExt {
	for n := 0; n < 1200 && len(m.all()) < count; n++ {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond)
	bodies := map[string]*primitive.MessageExt{}
	for _, message := range m.all() {
		bodies[string(message.Body)] = message
	}
	check(len(m.all()) == count, "messages", len(m.all()), "of", count, bodies)
	return bodies
}

// consumes starts a push consumer whose messages are all consumed.
func consumes(name string, selector consumer.MessageSelector, options ...consumer.Option) (rocketmq.PushConsumer, *messages) {
	got := &messages{}
	made := newConsumer(name, options...)
	err := made.Subscribe(topic, selector, func(_ context.Context, each ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got.add(each...)
		return consumer.ConsumeSuccess, nil
	})
	check(err == nil, "a subscription", err)
	err = made.Start()
	check(err == nil, "the consumer starts", err)
	return made, got
}

func newConsumer(name string, options ...consumer.Option) rocketmq.PushConsumer {
	made, err := rocketmq.NewPushConsumer(append([]consumer.Option{consumer.WithNameServer(names),
		consumer.WithGroupName(group(name)), consumer.WithInstance(name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, options...)...)
	check(err == nil, "a consumer", err)
	return made
}

func stop(parts ...interface{ Shutdown() error }) {
	for _, part := range parts {
		err := part.Shutdown()
		check(err == nil, "shutdown", err)
	}
}

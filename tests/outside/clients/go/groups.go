package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member polls until its context ends; `held` is asked for how many partitions it has.
type member struct {
	own  *kgo.Client
	mu   sync.Mutex
	have map[int32]bool
	lost int
}

func (m *member) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.have)
}

func join(ctx context.Context, topic string, seen chan<- string, options ...kgo.Opt) *member {
	m := &member{have: map[int32]bool{}}
	given := func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, parts := range all {
			for _, one := range parts {
				m.have[one] = true
			}
		}
	}
	taken := func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, parts := range all {
			m.lost += len(parts)
			for _, one := range parts {
				delete(m.have, one)
			}
		}
	}
	m.own = client(append(options, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.OnPartitionsAssigned(given), kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(500*time.Millisecond))...)
	go func() {
		for ctx.Err() == nil {
			some := m.own.PollFetches(ctx)
			if some.IsClientClosed() {
				return
			}
			for _, one := range some.Records() {
				seen <- string(one.Value)
			}
		}
	}()
	return m
}

func until(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not %s in time", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// shared has two members read everything, two partitions each; when one leaves the other has all four.
func shared(ctx context.Context, topic string, options ...kgo.Opt) error {
	if err := filled(ctx, topic, 4, 400); err != nil {
		return err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan string, 2000)
	one := join(inner, topic, seen, options...)
	if err := until(ctx, "all with one", func() bool { return one.held() == 4 }); err != nil {
		return err
	}
	other := join(inner, topic, seen, options...)
	if err := until(ctx, "shared", func() bool { return one.held() == 2 && other.held() == 2 }); err != nil {
		return err
	}
	values := map[string]bool{}
	for len(values) < 400 {
		select {
		case value := <-seen:
			values[value] = true
		case <-ctx.Done():
			return fmt.Errorf("%d values of 400", len(values))
		}
	}
	other.own.Close()
	defer one.own.Close()
	return until(ctx, "all with one again", func() bool { return one.held() == 4 })
}

func static(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 4); err != nil {
		return err
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan string, 2000)
	one := join(inner, topic, seen, kgo.InstanceID("one"))
	other := join(inner, topic, seen, kgo.InstanceID("other"))
	defer other.own.Close()
	if err := until(ctx, "shared", func() bool { return one.held() == 2 && other.held() == 2 }); err != nil {
		return err
	}
	other.mu.Lock()
	lost := other.lost
	other.mu.Unlock()
	one.own.Close()
	again := join(inner, topic, seen, kgo.InstanceID("one"))
	defer again.own.Close()
	if err := until(ctx, "shared again", func() bool { return again.held() == 2 }); err != nil {
		return err
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.lost != lost {
		return fmt.Errorf("the other member was disturbed")
	}
	return nil
}

func expression(ctx context.Context, topic string) error {
	if err := create(ctx, topic+"-a", 1); err != nil {
		return err
	}
	own := client(kgo.ConsumerGroup(topic), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic+"-[ab]$"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(200*time.Millisecond))
	defer own.Close()
	for _, name := range []string{topic + "-a", topic + "-b"} {
		if name == topic+"-b" {
			if err := create(ctx, name, 1); err != nil {
				return err
			}
		}
		if err := write(ctx, name, 10); err != nil {
			return err
		}
		for count := 0; count < 10; {
			some := own.PollFetches(ctx)
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %d of 10 records", name, count)
			}
			count += some.NumRecords()
		}
	}
	return nil
}

// share has records accepted, released and rejected; only the released ones come again.
func share(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	if err := earliest(ctx, topic); err != nil {
		return err
	}
	if err := write(ctx, topic, 30); err != nil {
		return err
	}
	own := client(kgo.ShareGroup(topic), kgo.ConsumeTopics(topic))
	defer own.Close()
	times := map[int64]int{}
	for len(times) < 30 || times[1] < 2 || times[28] < 2 {
		some := own.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d records, %v", len(times), times)
		}
		for _, one := range some.Records() {
			times[one.Offset]++
			switch {
			case times[one.Offset] > 1 || one.Offset%3 == 0:
				one.Ack(kgo.AckAccept)
			case one.Offset%3 == 1:
				one.Ack(kgo.AckRelease)
			default:
				one.Ack(kgo.AckReject)
			}
		}
		if err := own.FlushAcks(ctx); err != nil {
			return err
		}
	}
	for offset, count := range times {
		if want := 1 + (map[bool]int{true: 1}[offset%3 == 1]); count != want {
			return fmt.Errorf("offset %d came %d times", offset, count)
		}
	}
	found, err := kadm.NewClient(own).DescribeShareGroups(ctx, topic)
	if err != nil {
		return err
	}
	if len(found[topic].Members) != 1 {
		return fmt.Errorf("%+v", found)
	}
	return nil
}

// exactlyOnce copies with a group transact session; every third attempt is aborted.
func exactlyOnce(ctx context.Context, topic string) error {
	target := topic + "-copy"
	for _, name := range []string{topic, target} {
		if err := create(ctx, name, 2); err != nil {
			return err
		}
	}
	if err := write(ctx, topic, 300); err != nil {
		return err
	}
	own, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(topic),
		kgo.TransactionalID(topic), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets())
	if err != nil {
		return err
	}
	defer own.Close()
	for copied, turn := 0, 0; copied < 300; turn++ {
		some := own.PollRecords(ctx, 40)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of 300 copied", copied)
		}
		if some.NumRecords() == 0 {
			continue
		}
		if err := own.Begin(); err != nil {
			return err
		}
		for _, one := range some.Records() {
			own.Produce(ctx, &kgo.Record{Topic: target, Value: one.Value}, nil)
		}
		how := kgo.TransactionEndTry(turn%3 != 0)
		committed, err := own.End(ctx, how)
		if err != nil {
			return err
		}
		if committed {
			copied += some.NumRecords()
		}
	}
	found, err := read(ctx, target, 300, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	values := map[string]bool{}
	for _, one := range found {
		values[string(one.Value)] = true
	}
	if len(values) != 300 {
		return fmt.Errorf("%d values of 300", len(values))
	}
	return nil
}

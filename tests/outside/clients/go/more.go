package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var input = bufio.NewReader(os.Stdin)

func askForRestart() error {
	fmt.Println("restart me")
	_, err := input.ReadString('\n')
	return err
}

// earliest has a share group begin at the start.
func earliest(ctx context.Context, group string) error {
	own := client()
	defer own.Close()
	value := "earliest"
	entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	entry.Name, entry.Value = "share.auto.offset.reset", &value
	where := kmsg.NewIncrementalAlterConfigsRequestResource()
	where.ResourceType, where.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	where.Configs = append(where.Configs, entry)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, where)
	answer, err := request.RequestWith(ctx, own)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Resources[0].ErrorCode)
}

func adminGroups(ctx context.Context, topic string) error {
	own := client()
	defer own.Close()
	admin := kadm.NewClient(own)
	if err := filled(ctx, topic, 1, 50); err != nil {
		return err
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 20, LeaderEpoch: -1, Metadata: "note"})
	if err := admin.CommitAllOffsets(ctx, topic, offsets); err != nil {
		return err
	}
	fetched, err := admin.FetchOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if one, _ := fetched.Lookup(topic, 0); one.At != 20 || one.Metadata != "note" {
		return fmt.Errorf("fetched %+v", one)
	}
	lags, err := admin.Lag(ctx, topic)
	if err != nil || lags.Error() != nil {
		return errors.Join(err, lags.Error())
	}
	if lag := lags[topic].Lag.Total(); lag != 30 {
		return fmt.Errorf("lag %d", lag)
	}
	listed, err := admin.ListGroups(ctx, "Empty")
	if err != nil || listed[topic].State != "Empty" {
		return fmt.Errorf("listed %+v %v", listed[topic], err)
	}
	var which kadm.TopicsSet
	which.Add(topic, 0)
	if gone, err := admin.DeleteOffsets(ctx, topic, which); err != nil || gone.Error() != nil {
		return errors.Join(err, gone.Error())
	}
	if one, err := admin.DeleteGroup(ctx, topic); err != nil || one.Err != nil {
		return errors.Join(err, one.Err)
	}
	if one, _ := admin.DeleteGroup(ctx, topic); !errors.Is(one.Err, kerr.GroupIDNotFound) {
		return fmt.Errorf("deleted twice: %v", one.Err)
	}
	return nil
}

func adminQuotas(ctx context.Context, topic string) error {
	own := client()
	defer own.Close()
	admin := kadm.NewClient(own)
	whose := kadm.ClientQuotaEntity{{Type: "client-id", Name: &topic}}
	for _, remove := range []bool{false, true} {
		change := []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 4096, Remove: remove}}
		done, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: whose, Ops: change}})
		if err != nil || done[0].Err != nil {
			return fmt.Errorf("%v %v", err, done)
		}
		found, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "client-id", MatchName: &topic, MatchType: kmsg.QuotasMatchTypeExact}})
		if err != nil || (len(found) == 0) != remove {
			return fmt.Errorf("%v %v", err, found)
		}
		if !remove && (len(found[0].Values) != 1 || found[0].Values[0].Value != 4096) {
			return fmt.Errorf("%+v", found[0])
		}
	}
	return nil
}

func adminTransactions(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	own := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	defer own.Close()
	if err := own.BeginTransaction(); err != nil {
		return err
	}
	if err := own.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr(); err != nil {
		return err
	}
	admin := kadm.NewClient(own)
	listed, err := admin.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil || listed[topic].State != "Ongoing" {
		return fmt.Errorf("listed %+v %v", listed[topic], err)
	}
	var which kadm.TopicsSet
	which.Add(topic, 0)
	found, err := admin.DescribeProducers(ctx, which)
	if err != nil {
		return err
	}
	active := found[topic].Partitions[0].ActiveProducers
	if len(active) != 1 {
		return fmt.Errorf("producers %+v", active)
	}
	for _, one := range active {
		if one.CurrentTxnStartOffset != 0 || one.ProducerID != listed[topic].ProducerID {
			return fmt.Errorf("producer %+v", one)
		}
	}
	if err := own.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	described, err := admin.DescribeTransactions(ctx, topic)
	if err != nil {
		return err
	}
	return until(ctx, "complete", func() bool {
		described, err = admin.DescribeTransactions(ctx, topic)
		return err == nil && described[topic].State == "CompleteCommit"
	})
}

// refusals are told by the errors of Kafka's protocol.
func refusals(ctx context.Context, topic string) error {
	own := client(kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(0))
	defer own.Close()
	admin := kadm.NewClient(own)
	small := "1000"
	if _, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{"max.message.bytes": &small}, topic); err != nil {
		return err
	}
	large := kgo.SliceRecord(make([]byte, 2000))
	plain := client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer plain.Close()
	for at := range large.Value {
		large.Value[at] = byte(at)
	}
	if err := plain.ProduceSync(ctx, large).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		return fmt.Errorf("too large: %v", err)
	}
	missing := &kgo.Record{Topic: topic + "-missing", Value: []byte("v")}
	if err := own.ProduceSync(ctx, missing).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("no topic: %v", err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "no/name"); !errors.Is(err, kerr.InvalidTopicException) {
		return fmt.Errorf("bad name: %v", err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, topic+"-3"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		return fmt.Errorf("replicas: %v", err)
	}
	return nil
}

// restart writes and reads on through a kill -9: all is there once, in order.
func restart(ctx context.Context, topic string) error {
	const count = 2000
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	writer := client(kgo.DefaultProduceTopic(topic))
	defer writer.Close()
	reader := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	// franz-go gives up what it was about to write where a new connection ends before its first answer
	// (kgo.AlwaysRetryEOF): it has its producer id before the broker is killed.
	if err := writer.ProduceSync(ctx, kgo.StringRecord("v0")).FirstErr(); err != nil {
		return err
	}
	failed := make(chan error, count-1)
	for at := 1; at < count; at++ {
		writer.Produce(ctx, kgo.StringRecord(fmt.Sprintf("v%d", at)), func(_ *kgo.Record, err error) { failed <- err })
		if at == count/2 {
			if err := askForRestart(); err != nil {
				return err
			}
		}
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	for range count - 1 {
		if err := <-failed; err != nil {
			return err
		}
	}
	for at := 0; at < count; {
		some := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records", at, count)
		}
		for _, one := range some.Records() {
			if string(one.Value) != fmt.Sprintf("v%d", at) {
				return fmt.Errorf("%s at place %d", one.Value, at)
			}
			at++
		}
	}
	return reader.CommitUncommittedOffsets(ctx)
}

// restartTransactions has the broker killed within a transaction, which then is committed.
func restartTransactions(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	own := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic), kgo.RetryTimeout(30*time.Second))
	defer own.Close()
	for turn, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := own.BeginTransaction(); err != nil {
			return err
		}
		if err := own.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("before %d", turn))).FirstErr(); err != nil {
			return err
		}
		if err := askForRestart(); err != nil {
			return err
		}
		if err := own.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("after %d", turn))).FirstErr(); err != nil {
			return err
		}
		if err := own.EndTransaction(ctx, how); err != nil {
			return err
		}
	}
	found, err := read(ctx, topic, 4, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	for at, one := range found {
		if want := []string{"before 0", "after 0", "before 2", "after 2"}[at]; string(one.Value) != want {
			return fmt.Errorf("%s at place %d", one.Value, at)
		}
	}
	return nil
}

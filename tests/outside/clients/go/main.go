// franz-go through named scenarios: go run . BOOTSTRAP NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Where it prints "restart me" it
// goes on when it reads a line: the broker is to be killed and started meanwhile. How it says who it is, if the broker
// wants to know, is in the file of properties that CLIENT_PROPERTIES names.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const most = 60 * time.Second

var bootstrap []string

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	all := map[string]func(context.Context, string) error{
		"headers-tombstones": headers,
		"group-classic":      group,
		"commit-and-resume":  resume,
		"admin-topics":       adminTopics,
		"admin-configs":      adminConfigs,
		"admin-records":      adminRecords,
		"transactions":       transactions,
		"group-range": func(ctx context.Context, topic string) error {
			return shared(ctx, topic, kgo.Balancers(kgo.RangeBalancer()))
		},
		"group-cooperative": func(ctx context.Context, topic string) error { return shared(ctx, topic) },
		"group-consumer": func(ctx context.Context, topic string) error {
			return shared(ctx, topic, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
		},
		"group-static":         static,
		"group-regex":          expression,
		"share-group":          share,
		"exactly-once-copy":    exactlyOnce,
		"admin-groups":         adminGroups,
		"admin-quotas":         adminQuotas,
		"admin-transactions":   adminTransactions,
		"refusals":             refusals,
		"restart":              restart,
		"restart-transactions": restartTransactions,
		"wrong-password":       wrongPassword,
		"unknown-authority":    unknownAuthority,
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		all["produce-consume-"+name] = func(ctx context.Context, topic string) error {
			return produceConsume(ctx, topic, codec)
		}
	}
	failed := false
	for _, name := range os.Args[2:] {
		ctx, cancel := context.WithTimeout(context.Background(), most)
		topic := fmt.Sprintf("go-%s-%d", name, time.Now().UnixNano())
		if err := all[name](ctx, topic); err != nil {
			failed = true
			fmt.Printf("failed %s: %v\n", name, err)
		} else {
			fmt.Printf("ok %s\n", name)
		}
		cancel()
	}
	if failed {
		os.Exit(1)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(secured(), options...)
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap...)}, options...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func create(ctx context.Context, topic string, partitions int32) error {
	own := client()
	defer own.Close()
	answer, err := kadm.NewClient(own).CreateTopic(ctx, partitions, -1, nil, topic)
	if err != nil {
		return err
	}
	return answer.Err
}

func write(ctx context.Context, topic string, count int, options ...kgo.Opt) error {
	own := client(append(options, kgo.DefaultProduceTopic(topic))...)
	defer own.Close()
	var records []*kgo.Record
	for at := range count {
		records = append(records, kgo.KeyStringRecord(fmt.Sprintf("k%d", at%10), fmt.Sprintf("v%d", at)))
	}
	return own.ProduceSync(ctx, records...).FirstErr()
}

// filled makes a topic and writes to it.
func filled(ctx context.Context, topic string, partitions int32, count int, options ...kgo.Opt) error {
	if err := create(ctx, topic, partitions); err != nil {
		return err
	}
	return write(ctx, topic, count, options...)
}

func read(ctx context.Context, topic string, count int, options ...kgo.Opt) ([]*kgo.Record, error) {
	own := client(append(options, kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	defer own.Close()
	var found []*kgo.Record
	for len(found) < count {
		some := own.PollFetches(ctx)
		if err := some.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(found), count, err)
		}
		found = append(found, some.Records()...)
	}
	return found, nil
}

func produceConsume(ctx context.Context, topic string, codec kgo.CompressionCodec) error {
	if err := filled(ctx, topic, 3, 1000, kgo.ProducerBatchCompression(codec)); err != nil {
		return err
	}
	found, err := read(ctx, topic, 1000)
	values := map[string]bool{}
	for _, one := range found {
		values[string(one.Value)] = true
	}
	if err == nil && len(values) != 1000 {
		err = fmt.Errorf("%d values", len(values))
	}
	return err
}

func headers(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	own := client(kgo.DefaultProduceTopic(topic))
	defer own.Close()
	when := time.UnixMilli(1_700_000_000_000)
	record := &kgo.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: when,
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "n"}}}
	if err := own.ProduceSync(ctx, record, &kgo.Record{Key: []byte("k")}).FirstErr(); err != nil {
		return err
	}
	found, err := read(ctx, topic, 2)
	if err != nil {
		return err
	}
	if !found[0].Timestamp.Equal(when) || len(found[0].Headers) != 2 || found[1].Value != nil {
		return fmt.Errorf("%+v %+v", found[0], found[1])
	}
	return nil
}

func group(ctx context.Context, topic string) error {
	if err := filled(ctx, topic, 4, 400); err != nil {
		return err
	}
	seen := make(chan string, 1000)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	member := func() {
		own := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer own.Close()
		for inner.Err() == nil {
			for _, one := range own.PollFetches(inner).Records() {
				seen <- string(one.Value)
			}
		}
	}
	go member()
	go member()
	values := map[string]bool{}
	for len(values) < 400 {
		select {
		case one := <-seen:
			values[one] = true
		case <-ctx.Done():
			return fmt.Errorf("%d values of 400", len(values))
		}
	}
	return nil
}

func resume(ctx context.Context, topic string) error {
	if err := filled(ctx, topic, 1, 100); err != nil {
		return err
	}
	own := client()
	defer own.Close()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 40, LeaderEpoch: -1, Metadata: "note"})
	if err := kadm.NewClient(own).CommitAllOffsets(ctx, topic, offsets); err != nil {
		return err
	}
	found, err := read(ctx, topic, 60, kgo.ConsumerGroup(topic))
	if err == nil && found[0].Offset != 40 {
		err = fmt.Errorf("began at %d", found[0].Offset)
	}
	return err
}

func adminTopics(ctx context.Context, topic string) error {
	own := client()
	defer own.Close()
	admin := kadm.NewClient(own)
	if err := create(ctx, topic, 2); err != nil {
		return err
	}
	if err := create(ctx, topic, 2); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("created twice: %v", err)
	}
	if grown, err := admin.UpdatePartitions(ctx, 5, topic); err != nil || grown.Error() != nil {
		return errors.Join(err, grown.Error())
	}
	listed, err := admin.ListTopics(ctx, topic)
	if err != nil || len(listed[topic].Partitions) != 5 {
		return fmt.Errorf("%v %v", listed, err)
	}
	if _, err := admin.DescribeAllLogDirs(ctx, nil); err != nil {
		return err
	}
	gone, err := admin.DeleteTopics(ctx, topic)
	if err != nil {
		return err
	}
	return gone.Error()
}

func adminConfigs(ctx context.Context, topic string) error {
	own := client()
	defer own.Close()
	admin := kadm.NewClient(own)
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	value := "123456"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	if done, err := admin.AlterTopicConfigs(ctx, change, topic); err != nil || done[0].Err != nil {
		return errors.Join(err, done[0].Err)
	}
	found, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	for _, one := range found[0].Configs {
		if one.Key == "retention.ms" && one.MaybeValue() == value {
			return nil
		}
	}
	return fmt.Errorf("%v", found[0].Configs)
}

func adminRecords(ctx context.Context, topic string) error {
	own := client()
	defer own.Close()
	admin := kadm.NewClient(own)
	if err := filled(ctx, topic, 1, 100); err != nil {
		return err
	}
	var before kadm.Offsets
	before.Add(kadm.Offset{Topic: topic, Partition: 0, At: 30})
	if done, err := admin.DeleteRecords(ctx, before); err != nil || done.Error() != nil {
		return errors.Join(err, done.Error())
	}
	start, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if one, _ := start.Lookup(topic, 0); one.Offset != 30 {
		return fmt.Errorf("starts at %d", one.Offset)
	}
	_, err = read(ctx, topic, 70)
	return err
}

func transactions(ctx context.Context, topic string) error {
	if err := create(ctx, topic, 2); err != nil {
		return err
	}
	own := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	defer own.Close()
	for turn := range 10 {
		if err := own.BeginTransaction(); err != nil {
			return err
		}
		for at := range 10 {
			own.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%d-%d", turn, at)), nil)
		}
		if err := own.Flush(ctx); err != nil {
			return err
		}
		how := kgo.TryCommit
		if turn%2 == 1 {
			how = kgo.TryAbort
		}
		if err := own.EndTransaction(ctx, how); err != nil {
			return err
		}
	}
	found, err := read(ctx, topic, 50, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	for _, one := range found {
		if (one.Value[0]-'0')%2 == 1 {
			return fmt.Errorf("aborted and read: %s", one.Value)
		}
	}
	_, err = read(ctx, topic, 100)
	return err
}

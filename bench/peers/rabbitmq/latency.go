// From sending to arrival at a steady rate; both ends are here, and so is the clock.

package main

import (
	"encoding/binary"
	"sort"
	"time"
)

const warmUpShare = 0.2

func latency(o options) result {
	s, exchange, key := newSender(o)
	r := newReceiver(o)
	count := int64(o.rate * o.seconds)
	frames := message(exchange, key, make([]byte, o.size))
	stamp := frames[len(frames)-1-o.size:][:8]
	started := time.Now()
	go func() {
		for number := range count {
			due := started.Add(time.Duration(float64(number) / o.rate * 1e9))
			time.Sleep(time.Until(due))
			binary.BigEndian.PutUint64(stamp, uint64(time.Since(started)))
			s.send(frames)
			s.link.flush()
		}
	}()
	taken := make([]float64, 0, count)
	for range count {
		sent := time.Duration(binary.BigEndian.Uint64(r.take()))
		taken = append(taken, float64(time.Since(started)-sent)/1e6)
	}
	elapsed := time.Since(started).Seconds()
	r.settled()
	judged := taken[int(float64(count)*warmUpShare):]
	sort.Float64s(judged)
	return result{
		Messages: count, Seconds: elapsed,
		P50: judged[len(judged)/2], P99: judged[len(judged)*99/100],
	}
}

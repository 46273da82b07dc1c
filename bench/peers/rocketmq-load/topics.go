// Topics: created in the broker, and known to the name server before anything is sent.

package main

import (
	"bytes"
	"regexp"
	"strconv"
)

var (
	addressInCluster = regexp.MustCompile(`"brokerAddrs":\{\"?0"?:"([^"]+)"`)
	queuesInRoute    = regexp.MustCompile(`"writeQueueNums":(\d+)`)
)

// brokerOf returns the address of the only broker, once it has registered.
func brokerOf(nameServer string) string {
	names := dial(nameServer)
	defer names.Close()
	var found [][]byte
	tried(func() bool {
		found = addressInCluster.FindSubmatch(names.call(frame(clusterInfo, "", nil)).body)
		return found != nil
	}, "the name server knows no broker")
	return string(found[1])
}

func create(o options) {
	count := strconv.Itoa(o.queues)
	broker := dial(brokerOf(o.nameServer))
	said := broker.call(frame(updateTopic, fields(
		"topic", o.topic, "defaultTopic", "TBW102", "readQueueNums", count, "writeQueueNums", count,
		"perm", "6", "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false",
	), nil))
	if said.code != success {
		said.refused("topic " + o.topic)
	}
	names := dial(o.nameServer)
	tried(func() bool {
		said = names.call(frame(routeOfTopic, fields("topic", o.topic), nil))
		found := queuesInRoute.FindSubmatch(said.body)
		return said.code == success && found != nil && bytes.Equal(found[1], []byte(count))
	}, "no route of topic "+o.topic)
}

func remove(o options) {
	named := fields("topic", o.topic)
	broker := dial(brokerOf(o.nameServer))
	if said := broker.call(frame(deleteInBroker, named, nil)); said.code != success {
		said.refused("topic " + o.topic)
	}
	dial(o.nameServer).call(frame(deleteInNames, named, nil))
}

// Topics: created in the broker, and known to the name server before anything is sent.

package main

import (
	"net"
	"regexp"
	"strconv"
)

// queuesAtOnce are the queues that one request adds: each new one is an open file of a broker.
const queuesAtOnce = 1000

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

// create makes a topic, also of servers that start just now.
func create(o options) {
	tried(func() bool {
		socket, err := net.Dial("tcp", o.nameServer)
		return err == nil && socket.Close() == nil
	}, "nothing listens at "+o.nameServer)
	broker := dial(brokerOf(o.nameServer))
	names := dial(o.nameServer)
	for count := 0; count < o.queues; {
		count = min(count+queuesAtOnce, o.queues)
		grow(broker, names, o.topic, strconv.Itoa(count))
	}
}

// grow gives a topic so many queues, and returns when its route has them.
func grow(broker, names *conn, topic, count string) {
	said := broker.call(frame(updateTopic, fields(
		"topic", topic, "defaultTopic", "TBW102", "readQueueNums", count, "writeQueueNums", count,
		"perm", "6", "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false",
	), nil))
	if said.code != success {
		said.refused("topic " + topic)
	}
	tried(func() bool {
		said = names.call(frame(routeOfTopic, fields("topic", topic), nil))
		found := queuesInRoute.FindSubmatch(said.body)
		return said.code == success && found != nil && string(found[1]) == count
	}, "no route of topic "+topic)
}

func remove(o options) {
	named := fields("topic", o.topic)
	broker := dial(brokerOf(o.nameServer))
	if said := broker.call(frame(deleteInBroker, named, nil)); said.code != success {
		said.refused("topic " + o.topic)
	}
	dial(o.nameServer).call(frame(deleteInNames, named, nil))
}

// Queues: names, arguments, counts, expiry, order and length, and where their dead go.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.GetResponse;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

final class Queues {
    private Queues() {}

    static Map<String, Scenarios.Scenario> all() {
        return Map.of(
                "a-queue-named-by-the-server-goes-with-its-connection", Queues::named,
                "unequal-arguments-are-refused", Queues::unequal,
                "purging-and-deleting-tell-how-many-there-were", Queues::counts,
                "messages-and-queues-expire", Queues::expiry,
                "urgent-messages-go-first", Queues::priorities,
                "a-bounded-queue-drops-its-oldest", Queues::bounded,
                "a-rejected-message-dies-with-its-history", Queues::rejected,
                "an-expired-message-dies-with-its-history", Queues::expired);
    }

    static void named(Connection connection, Channel channel) throws Exception {
        Connection owner = Kit.connect();
        String queue = owner.createChannel().queueDeclare().getQueue();
        Kit.check(queue.startsWith("amq.gen-"), queue);
        Kit.refused(
                405,
                "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue + "' in vhost '/'. It could"
                        + " be originally declared on another connection or the exclusive property value does not match"
                        + " that of the original declaration.",
                () -> channel.queueDeclarePassive(queue));
        owner.close();
        Channel second = connection.createChannel();
        Kit.refused(
                404, "NOT_FOUND - no queue '" + queue + "' in vhost '/'", () -> second.queueDeclarePassive(queue));
    }

    static void unequal(Connection connection, Channel channel) throws Exception {
        String queue = Kit.unused("q");
        channel.queueDeclare(queue, false, false, true, Map.of("x-message-ttl", 1000));
        Channel second = connection.createChannel();
        Kit.refused(
                406,
                "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '" + queue
                        + "' in vhost '/': received 'true' but current is 'false'",
                () -> second.queueDeclare(queue, true, false, true, Map.of("x-message-ttl", 1000)));
        Channel third = connection.createChannel();
        Kit.refused(
                406,
                "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '" + queue
                        + "' in vhost '/': received '2000' but current is '1000'",
                () -> third.queueDeclare(queue, false, false, true, Map.of("x-message-ttl", 2000)));
        channel.queueDelete(queue);
    }

    static void counts(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "0", "1", "2");
        Kit.eventually(() -> channel.queueDeclarePassive(queue).getMessageCount() == 3, "three messages");
        Kit.equal(3, channel.queuePurge(queue).getMessageCount());
        Kit.publish(channel, queue, "3", "4");
        Kit.next(Kit.consume(connection.createChannel(), queue, false), 2);
        Kit.equal(1, channel.queueDeclarePassive(queue).getConsumerCount());
        Channel careful = connection.createChannel();
        Kit.refused(
                406,
                "PRECONDITION_FAILED - queue '" + queue + "' in vhost '/' in use",
                () -> careful.queueDelete(queue, true, false));
        // What a consumer holds is not counted.
        Kit.equal(0, channel.queueDelete(queue).getMessageCount());
        Kit.equal(0, channel.queueDelete(queue).getMessageCount());
        String second = Kit.declared(channel);
        Kit.publish(channel, second, "5");
        Kit.eventually(() -> channel.messageCount(second) == 1, "a message");
        Kit.equal(1, channel.queueDelete(second).getMessageCount());
    }

    static void expiry(Connection connection, Channel channel) throws Exception {
        String brief = Kit.declared(channel, Map.of("x-message-ttl", 100));
        Kit.publish(channel, brief, "brief");
        Kit.eventually(() -> channel.messageCount(brief) == 0, "the message's end by its queue");
        String queue = Kit.declared(channel);
        AMQP.BasicProperties expiring = new AMQP.BasicProperties.Builder().expiration("100").build();
        channel.basicPublish("", queue, expiring, Kit.bytes("brief"));
        Kit.publish(channel, queue, "stays");
        Thread.sleep(300);
        Kit.equal(List.of("stays"), Kit.drained(channel, queue, 1));
        String gone = Kit.unused("q");
        channel.queueDeclare(gone, false, false, false, Map.of("x-expires", 200));
        Thread.sleep(1000);
        Kit.refused(404, "NOT_FOUND - no queue '" + gone + "' in vhost '/'", () -> channel.queueDeclarePassive(gone));
    }

    static void priorities(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel, Map.of("x-max-priority", 5));
        for (int priority : List.of(0, 3, 9, 3, 5, 1)) {
            AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().priority(priority).build();
            channel.basicPublish("", queue, properties, Kit.bytes("" + priority));
        }
        Kit.publish(channel, queue, "none");
        // Above the highest counts as the highest, none as the lowest.
        Kit.equal(List.of("9", "5", "3", "3", "1", "0", "none"), Kit.drained(channel, queue, 7));
    }

    static void bounded(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel, Map.of("x-max-length", 2));
        Kit.publish(channel, queue, "0", "1", "2");
        Kit.equal(List.of("1", "2"), Kit.drained(channel, queue, 2));
    }

    static Map<?, ?> death(GetResponse found, int at) {
        return (Map<?, ?>) ((List<?>) found.getProps().getHeaders().get("x-death")).get(at);
    }

    static String header(GetResponse found, String name) {
        return String.valueOf(found.getProps().getHeaders().get(name));
    }

    static void rejected(Connection connection, Channel channel) throws Exception {
        String dead = Kit.declared(channel);
        Map<String, Object> arguments = new HashMap<>();
        arguments.put("x-dead-letter-exchange", "");
        arguments.put("x-dead-letter-routing-key", dead);
        String queue = Kit.declared(channel, arguments);
        Kit.publish(channel, queue, "poison");
        channel.basicReject(channel.basicGet(queue, false).getEnvelope().getDeliveryTag(), false);
        GetResponse found = Kit.arrived(channel, dead);
        Map<?, ?> death = death(found, 0);
        Kit.equal("rejected", death.get("reason").toString());
        Kit.equal(queue, death.get("queue").toString());
        Kit.equal("", death.get("exchange").toString());
        Kit.equal(1L, death.get("count"));
        Kit.equal(List.of(queue), ((List<?>) death.get("routing-keys")).stream().map(Object::toString).toList());
        Kit.check(death.get("time") instanceof java.util.Date, "no time of death");
        for (String name : List.of("x-first-death-", "x-last-death-")) {
            Kit.equal("rejected", header(found, name + "reason"));
            Kit.equal(queue, header(found, name + "queue"));
            Kit.equal("", header(found, name + "exchange"));
        }
    }

    static void expired(Connection connection, Channel channel) throws Exception {
        // It dies in a circle: what waited comes back to where it was first, and is counted when it dies there again.
        String first = Kit.unused("q");
        String second = Kit.unused("q");
        Map<String, Object> toSecond = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", second);
        Map<String, Object> toFirst = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", first);
        channel.queueDeclare(first, false, true, false, toSecond);
        channel.queueDeclare(second, false, true, false, toFirst);
        AMQP.BasicProperties expiring = new AMQP.BasicProperties.Builder().expiration("100").build();
        channel.basicPublish("", first, expiring, Kit.bytes("brief"));
        Kit.eventually(() -> channel.messageCount(second) == 1, "its first death");
        GetResponse once = channel.basicGet(second, false);
        Kit.equal(null, once.getProps().getExpiration());
        Kit.equal("expired", death(once, 0).get("reason").toString());
        Kit.equal("100", death(once, 0).get("original-expiration").toString());
        channel.basicReject(once.getEnvelope().getDeliveryTag(), false);
        GetResponse twice = Kit.arrived(channel, first);
        Kit.equal("rejected", death(twice, 0).get("reason").toString());
        Kit.equal("expired", death(twice, 1).get("reason").toString());
        Kit.equal("expired", header(twice, "x-first-death-reason"));
        Kit.equal("rejected", header(twice, "x-last-death-reason"));
    }
}

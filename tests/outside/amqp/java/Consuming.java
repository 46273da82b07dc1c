// Consuming: prefetch, acknowledgements, what comes back, and consumers that are cancelled.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

final class Consuming {
    private Consuming() {}

    static Map<String, Scenarios.Scenario> all() {
        return Map.of(
                "prefetch-bounds-what-is-outstanding", Consuming::prefetch,
                "several-are-acknowledged-at-once", Consuming::multiple,
                "what-is-handed-back-comes-again-in-its-place", Consuming::requeue,
                "what-a-closed-channel-held-comes-again", Consuming::closed,
                "a-deleted-queue-cancels-its-consumer", Consuming::cancelled,
                "an-exclusive-consumer-keeps-others-away", Consuming::exclusive,
                "an-unknown-delivery-tag-closes-the-channel", Consuming::unknownTag,
                "get-tells-what-is-left", Consuming::get,
                "a-procedure-is-called-over-direct-reply-to", Consuming::call);
    }

    static long tag(Delivery delivery) {
        return delivery.getEnvelope().getDeliveryTag();
    }

    static void prefetch(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "0", "1", "2", "3", "4");
        channel.basicQos(2);
        BlockingQueue<Delivery> got = Kit.consume(channel, queue, false);
        List<Delivery> first = Kit.next(got, 2);
        Kit.silent(got);
        channel.basicAck(tag(first.get(1)), false);
        Kit.equal("2", Kit.text(Kit.next(got).getBody()));
        Kit.silent(got);
        // Of the whole channel: a second consumer shares the bound.
        Channel bounded = connection.createChannel();
        bounded.basicQos(3, true);
        String second = Kit.declared(bounded);
        String third = Kit.declared(bounded);
        Kit.publish(bounded, second, "a", "b");
        Kit.publish(bounded, third, "c", "d");
        BlockingQueue<Delivery> both = Kit.consume(bounded, second, false);
        Kit.next(both, 2);
        bounded.basicConsume(third, false, (consumer, delivery) -> both.add(delivery), (CancelCallback) consumer -> {});
        Kit.equal("c", Kit.text(Kit.next(both).getBody()));
        Kit.silent(both);
    }

    static void multiple(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "0", "1", "2", "3");
        List<Delivery> got = Kit.next(Kit.consume(channel, queue, false), 4);
        channel.basicAck(tag(got.get(2)), true);
        channel.close();
        Channel after = connection.createChannel();
        Kit.equal(List.of("3"), Kit.drained(after, queue, 1));
    }

    static void requeue(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "0", "1", "2", "3");
        GetResponse[] got = new GetResponse[3];
        for (int at = 0; at < got.length; at++) {
            got[at] = channel.basicGet(queue, false);
            Kit.check(!got[at].getEnvelope().isRedeliver(), "redelivered at first");
        }
        channel.basicReject(got[2].getEnvelope().getDeliveryTag(), false);
        channel.basicNack(got[1].getEnvelope().getDeliveryTag(), true, true);
        GetResponse first = channel.basicGet(queue, true);
        GetResponse second = channel.basicGet(queue, true);
        GetResponse third = channel.basicGet(queue, true);
        Kit.equal(List.of("0", "1", "3"), List.of(first, second, third).stream()
                .map(response -> Kit.text(response.getBody())).toList());
        Kit.check(first.getEnvelope().isRedeliver() && second.getEnvelope().isRedeliver(), "not marked as redelivered");
        Kit.check(!third.getEnvelope().isRedeliver(), "marked as redelivered");
        Kit.equal(null, channel.basicGet(queue, true));
    }

    static void closed(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "held");
        Channel dying = connection.createChannel();
        Kit.next(Kit.consume(dying, queue, false));
        dying.close();
        GetResponse again = Kit.arrived(channel, queue);
        Kit.check(again.getEnvelope().isRedeliver(), "not marked as redelivered");
        Kit.publish(channel, queue, "recovered");
        channel.basicGet(queue, false);
        channel.basicRecover(true);
        Kit.check(Kit.arrived(channel, queue).getEnvelope().isRedeliver(), "not marked after recover");
    }

    static void cancelled(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(queue, false, (consumer, delivery) -> {}, (CancelCallback) cancelled::add);
        connection.createChannel().queueDelete(queue);
        Kit.equal(tag, Kit.next(cancelled));
        // The channel lives on.
        Kit.declared(channel);
    }

    static void exclusive(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        channel.basicConsume(queue, false, "", false, true, Map.of(), (tag, delivery) -> {}, (CancelCallback) tag -> {});
        Channel second = connection.createChannel();
        Kit.refused(
                403,
                "ACCESS_REFUSED - queue '" + queue + "' in vhost '/' in exclusive use",
                () -> Kit.consume(second, queue, false));
    }

    static void unknownTag(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.publish(channel, queue, "once");
        long tag = channel.basicGet(queue, false).getEnvelope().getDeliveryTag();
        channel.basicAck(tag, false);
        channel.basicAck(tag, false);
        Kit.closes(406, "PRECONDITION_FAILED - unknown delivery tag 1", channel);
    }

    static void get(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        Kit.equal(null, channel.basicGet(queue, true));
        Kit.publish(channel, queue, "0", "1", "2");
        for (int left = 2; left >= 0; left--) {
            GetResponse found = channel.basicGet(queue, true);
            Kit.equal(left, found.getMessageCount());
            Kit.equal("", found.getEnvelope().getExchange());
            Kit.equal(queue, found.getEnvelope().getRoutingKey());
            Kit.equal((long) 3 - left, found.getEnvelope().getDeliveryTag());
        }
    }

    static void call(Connection connection, Channel client) throws Exception {
        Channel server = connection.createChannel();
        String calls = Kit.declared(server);
        BlockingQueue<Delivery> answers = Kit.consume(client, "amq.rabbitmq.reply-to", true);
        AMQP.BasicProperties asked = new AMQP.BasicProperties.Builder()
                .replyTo("amq.rabbitmq.reply-to").correlationId("7").build();
        client.basicPublish("", calls, asked, Kit.bytes("ping"));
        GetResponse request = Kit.arrived(server, calls);
        String replyTo = request.getProps().getReplyTo();
        Kit.check(replyTo.startsWith("amq.rabbitmq.reply-to."), replyTo);
        server.queueDeclarePassive(replyTo);
        AMQP.BasicProperties answering = new AMQP.BasicProperties.Builder()
                .correlationId(request.getProps().getCorrelationId()).build();
        server.basicPublish("", replyTo, answering, Kit.bytes("pong"));
        Delivery answer = Kit.next(answers);
        Kit.equal("pong", Kit.text(answer.getBody()));
        Kit.equal("7", answer.getProperties().getCorrelationId());
        Channel without = connection.createChannel();
        without.basicPublish("", calls, asked, Kit.bytes("nobody listens"));
        Kit.closes(406, "PRECONDITION_FAILED - fast reply consumer does not exist", without);
    }
}

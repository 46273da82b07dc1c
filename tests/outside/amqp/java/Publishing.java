// Publishing: confirms, returns, transactions, bodies and properties.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

final class Publishing {
    private static final int CONFIRMED = 500;
    private static final Date TIME = new Date(1_700_000_000_000L);

    private Publishing() {}

    static Map<String, Scenarios.Scenario> all() {
        return Map.of(
                "every-message-is-confirmed", Publishing::confirms,
                "what-cannot-be-routed-comes-back-before-its-confirm", Publishing::returns,
                "bodies-of-many-frames-come-back-whole", Publishing::bodies,
                "properties-and-headers-come-back-as-they-were", Publishing::properties,
                "a-transaction-is-committed-and-another-rolled-back", Publishing::transactions,
                "a-full-queue-refuses-what-is-published", Publishing::full);
    }

    static void confirms(Connection connection, Channel channel) throws Exception {
        String queue = Kit.unused("q");
        channel.queueDeclare(queue, true, false, false, Map.of());
        channel.confirmSelect();
        BlockingQueue<Long> last = new LinkedBlockingQueue<>();
        channel.addConfirmListener((tag, multiple) -> last.add(tag), (tag, multiple) -> last.add(-1L));
        for (int number = 0; number < CONFIRMED; number++) {
            Kit.equal((long) number + 1, channel.getNextPublishSeqNo());
            channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, Kit.bytes("m" + number));
        }
        channel.waitForConfirmsOrDie(Kit.SECONDS_MAX * 1000);
        Kit.check(!last.contains(-1L), "a message was refused");
        Kit.eventually(() -> last.contains((long) CONFIRMED), "the confirm of the last message");
        Kit.equal((long) CONFIRMED, channel.messageCount(queue));
        channel.queueDelete(queue);
    }

    static void returns(Connection connection, Channel channel) throws Exception {
        List<String> heard = new java.util.concurrent.CopyOnWriteArrayList<>();
        channel.addReturnListener(back -> heard.add(back.getReplyCode() + " " + back.getReplyText() + " "
                + back.getExchange() + " " + back.getRoutingKey() + " " + Kit.text(back.getBody())));
        channel.addConfirmListener((tag, multiple) -> heard.add("ack " + tag), (tag, multiple) -> heard.add("nack"));
        channel.confirmSelect();
        channel.basicPublish("amq.direct", "nobody", true, Kit.NONE, Kit.bytes("back"));
        channel.waitForConfirmsOrDie(Kit.SECONDS_MAX * 1000);
        Kit.eventually(() -> heard.size() == 2, "a return and a confirm");
        Kit.equal(List.of("312 NO_ROUTE amq.direct nobody back", "ack 1"), heard);
    }

    static void bodies(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        for (int size : List.of(0, 1, 131_063, 131_064, 131_065, 262_128, 1_000_000)) {
            byte[] body = new byte[size];
            for (int at = 0; at < size; at++) {
                body[at] = (byte) (at % 251);
            }
            channel.basicPublish("", queue, Kit.NONE, body);
            Kit.check(Arrays.equals(body, Kit.arrived(channel, queue).getBody()), size + " bytes came otherwise");
        }
    }

    static void properties(Connection connection, Channel channel) throws Exception {
        Map<String, Object> headers = new HashMap<>();
        headers.put("text", "größe");
        headers.put("bytes", new byte[] {(byte) 0xff, 0});
        headers.put("true", true);
        headers.put("nothing", null);
        headers.put("byte", (byte) -7);
        headers.put("short", (short) -700);
        headers.put("int", 70_000);
        headers.put("long", -(1L << 40));
        headers.put("float", 0.5f);
        headers.put("double", 0.1);
        headers.put("decimal", new BigDecimal("3.14"));
        headers.put("time", TIME);
        headers.put("list", List.of(1, "two", Map.of("three", 3)));
        headers.put("table", Map.of("deep", Map.of("deeper", "x")));
        AMQP.BasicProperties sent = new AMQP.BasicProperties("text/plain", "utf-8", headers, 2, 3, "c", "r", "60000",
                "m", TIME, "t", "guest", "a", "k");
        String queue = Kit.declared(channel);
        channel.basicPublish("", queue, sent, Kit.bytes("body"));
        GetResponse found = Kit.arrived(channel, queue);
        Kit.equal(readable(headers), readable(found.getProps().getHeaders()));
        AMQP.BasicProperties plain = sent.builder().headers(null).build();
        Kit.equal(plain, found.getProps().builder().headers(null).build());
    }

    /** Values that can be compared: texts come back as LongString, and bytes are equal to no others. */
    static Object readable(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> found = new HashMap<>();
            map.forEach((name, inner) -> found.put(name, readable(inner)));
            return found;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Publishing::readable).toList();
        }
        if (value instanceof byte[] bytes) {
            return "bytes " + Arrays.toString(bytes);
        }
        return value instanceof LongString ? value.toString() : value;
    }

    static void transactions(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel);
        channel.txSelect();
        Kit.publish(channel, queue, "never");
        channel.txRollback();
        Kit.publish(channel, queue, "kept");
        Kit.equal(0L, channel.messageCount(queue));
        channel.txCommit();
        long tag = channel.basicGet(queue, false).getEnvelope().getDeliveryTag();
        channel.basicAck(tag, false);
        channel.txRollback();
        // The acknowledgement was taken back: it may be said once more, and holds then.
        channel.basicAck(tag, false);
        channel.txCommit();
        Kit.equal(null, channel.basicGet(queue, false));
        Kit.refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", channel::confirmSelect);
    }

    static void full(Connection connection, Channel channel) throws Exception {
        String queue = Kit.declared(channel, Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        channel.addConfirmListener((tag, multiple) -> heard.add("ack " + tag), (tag, multiple) -> heard.add("nack " + tag));
        channel.confirmSelect();
        Kit.publish(channel, queue, "a");
        Kit.equal("ack 1", Kit.next(heard));
        Kit.publish(channel, queue, "b");
        Kit.equal("nack 2", Kit.next(heard));
        Kit.equal(List.of("a"), Kit.drained(channel, queue, 1));
    }
}

// What the scenarios share: connections, messages, waiting and refusals.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.ShutdownSignalException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

final class Kit {
    static final long SECONDS_MAX = 20;
    static final long SILENCE_MS = 300;
    static final AMQP.BasicProperties NONE = new AMQP.BasicProperties();
    static String url;

    interface Action {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private Kit() {}

    static ConnectionFactory factory() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        return factory;
    }

    static Connection connect() throws Exception {
        return factory().newConnection("judge");
    }

    static String unused(String kind) {
        return kind + "-" + UUID.randomUUID();
    }

    /** A queue that goes with its connection; its name. */
    static String declared(Channel channel, Map<String, Object> arguments) throws Exception {
        return channel.queueDeclare(unused("q"), false, true, false, arguments).getQueue();
    }

    static String declared(Channel channel) throws Exception {
        return declared(channel, Map.of());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static void publish(Channel channel, String queue, String... bodies) throws Exception {
        for (String body : bodies) {
            channel.basicPublish("", queue, NONE, bytes(body));
        }
    }

    static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean acknowledged) throws Exception {
        BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, acknowledged, (tag, delivery) -> got.add(delivery), (CancelCallback) tag -> {});
        return got;
    }

    static <T> T next(BlockingQueue<T> got) throws Exception {
        T found = got.poll(SECONDS_MAX, TimeUnit.SECONDS);
        check(found != null, "nothing came");
        return found;
    }

    static List<Delivery> next(BlockingQueue<Delivery> got, int count) throws Exception {
        List<Delivery> found = new ArrayList<>();
        while (found.size() < count) {
            found.add(next(got));
        }
        return found;
    }

    static void silent(BlockingQueue<?> got) throws Exception {
        check(got.poll(SILENCE_MS, TimeUnit.MILLISECONDS) == null, "more came than may");
    }

    static List<String> bodies(List<Delivery> deliveries) {
        return deliveries.stream().map(delivery -> text(delivery.getBody())).toList();
    }

    /** A message; waits until there is one. */
    static GetResponse arrived(Channel channel, String queue) throws Exception {
        GetResponse[] found = new GetResponse[1];
        eventually(() -> (found[0] = channel.basicGet(queue, true)) != null, "a message in " + queue);
        return found[0];
    }

    /** The bodies of so many messages. */
    static List<String> drained(Channel channel, String queue, int count) throws Exception {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            found.add(text(arrived(channel, queue).getBody()));
        }
        equal(null, channel.basicGet(queue, true));
        return found;
    }

    static void eventually(Condition condition, String what) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
        while (!condition.holds()) {
            check(System.nanoTime() < deadline, "never came: " + what);
            Thread.sleep(10);
        }
    }

    static void check(boolean holds, String because) {
        if (!holds) {
            throw new AssertionError(because);
        }
    }

    static void equal(Object expected, Object found) {
        check(Objects.equals(expected, found), expected + " was expected, and " + found + " came");
    }

    /** What closes the channel or the connection, with this code and text. */
    static void refused(int code, String text, Action action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            boolean itself = error instanceof ShutdownSignalException;
            check(itself || error.getCause() instanceof ShutdownSignalException, "otherwise: " + error);
            closedBy(code, text, (ShutdownSignalException) (itself ? error : error.getCause()));
            return;
        }
        throw new AssertionError("nothing was refused");
    }

    static void closedBy(int code, String text, ShutdownSignalException closed) {
        Method reason = closed.getReason();
        if (reason instanceof AMQP.Channel.Close close) {
            equal(code + " " + text, close.getReplyCode() + " " + close.getReplyText());
        } else {
            AMQP.Connection.Close close = (AMQP.Connection.Close) reason;
            equal(code + " " + text, close.getReplyCode() + " " + close.getReplyText());
        }
    }

    /** The channel's end, which what was sent last leads to. */
    static void closes(int code, String text, Channel channel) throws Exception {
        eventually(() -> !channel.isOpen(), "the channel's end");
        closedBy(code, text, channel.getCloseReason());
    }
}

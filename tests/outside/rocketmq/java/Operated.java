// Scenarios in which an operator acts while a consumer runs: java Operated ADDRESS SCENARIO.
// A line "DO what" on standard output asks for the operator's action, a line on standard input says that it is done.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class Operated extends Kit {
    static final String GROUP = "CG_operated";
    static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));
    static final List<String> got = new CopyOnWriteArrayList<>();
    static DefaultMQProducer producer;

    public static void main(String[] given) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
            address = given[0];
            topic = "Orders";
            producer = new DefaultMQProducer("PG");
            producer.setPollNameServerInterval(1000);
            started(producer);
            switch (given[1]) {
                case "reset-by-time": resetByTime(); break;
                case "switched-off": switchedOff(); break;
                case "grows": grows(); break;
                default: throw new IllegalArgumentException(given[1]);
            }
            System.out.println("HOLDS " + given[1]);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    static void operator(String what) throws Exception {
        System.out.println("DO " + what);
        System.out.flush();
        check(ANSWERS.readLine() != null, "the operator is there");
    }

    static DefaultMQPushConsumer consumer(ConsumeFromWhere from) throws Exception {
        DefaultMQPushConsumer consumer = subscribed(new DefaultMQPushConsumer(GROUP), "*");
        consumer.setConsumeFromWhere(from);
        consumer.setPollNameServerInterval(1000);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) got.add(new String(message.getBody(), StandardCharsets.UTF_8));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    static void send(String prefix, int perQueue) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic))
            for (int n = 0; n < perQueue; n++)
                producer.send(new Message(topic, "A", "k", (prefix + "-" + queue.getQueueId() + "-" + n).getBytes()), queue);
    }

    static long count(String prefix) {
        return got.stream().filter(body -> body.startsWith(prefix)).count();
    }

    static void await(String prefix, long count) throws Exception {
        until(() -> count(prefix) >= count, count + " messages " + prefix);
        check(count(prefix) == count, prefix + ": " + count(prefix) + " of " + count);
    }

    // A consumer that is online gets again what was stored since the time of the reset, and nothing else.
    static void resetByTime() throws Exception {
        send("old", 5);
        Thread.sleep(50);
        long since = System.currentTimeMillis();
        Thread.sleep(50);
        send("mid", 5);
        DefaultMQPushConsumer consumer = consumer(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        await("mid", 10);
        await("old", 10);
        operator("reset " + since); // once the offsets are stored, with parked pulls
        await("mid", 20);
        Thread.sleep(2000);
        check(count("old") == 10 && count("mid") == 20, "again " + got);
        consumer.shutdown();
        got.clear();
        consumer = consumer(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        send("new", 1);
        await("new", 2);
        Thread.sleep(2000);
        check(got.size() == 2, "its offsets are behind what came again " + got);
        consumer.shutdown();
    }

    static void switchedOff() throws Exception {
        send("old", 5);
        DefaultMQPushConsumer consumer = consumer(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        await("old", 10);
        operator("off");
        send("off", 3);
        Thread.sleep(5000);
        check(count("off") == 0, "nothing while it is off: " + got);
        operator("on");
        await("off", 6);
        Thread.sleep(2000);
        check(got.size() == 16, "each once " + got);
        consumer.shutdown();
    }

    // Two queues become six while messages are sent and consumed: none is missed, none comes twice.
    static void grows() throws Exception {
        DefaultMQPushConsumer consumer = consumer(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        until(() -> queues(consumer).size() == 2, "two queues");
        Thread.sleep(1000); // it has asked for their offsets
        boolean[] used = new boolean[6];
        int sent = 0;
        for (int n = 0; n < 1500; n++) {
            if (n == 300) operator("grow");
            used[producer.send(new Message(topic, "A", "k", ("load-" + n).getBytes())).getMessageQueue().getQueueId()] = true;
            sent++;
            Thread.sleep(10);
        }
        for (int queue = 0; queue < 6; queue++) check(used[queue], "queue " + queue + " is used");
        await("load", sent);
        Thread.sleep(3000);
        check(got.size() == sent && got.stream().distinct().count() == sent, "each once: " + got.size());
        consumer.shutdown();
    }
}

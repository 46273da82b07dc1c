// A store with everything that is moved: java Moved ADDRESS prepare VERSION, then resume COUNT SECONDS, and offsets GROUP TOPIC.
// Lines on standard output: SENT topic queue offset body, GOT group topic queue offset body times, ASKED body,
// OFFSET group topic queue offset.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class Moved extends Kit {
    static final int QUEUES = 4, PER_QUEUE = 25, JOBS = 10, ONE_MINUTE = 5;
    static final Map<String, Integer> got = new ConcurrentHashMap<>();
    static final Set<String> asked = ConcurrentHashMap.newKeySet();
    static DefaultMQProducer producer;

    public static void main(String[] given) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
            address = given[0];
            producer = new DefaultMQProducer("PG");
            producer.setPollNameServerInterval(1000);
            started(producer);
            if (given[1].equals("prepare")) prepare(given[2].startsWith("5"));
            else if (given[1].equals("offsets")) offsets(given[2], given[3]);
            else resume(Integer.parseInt(given[2]), Integer.parseInt(given[3]));
            say("ENDED");
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static byte[] body(String name, boolean large) {
        StringBuilder text = new StringBuilder(name);
        if (large) for (int n = 0; n < 3000; n++) text.append(" and more");
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    static Message message(String topic, String name) {
        Message message = new Message(topic, name.hashCode() % 2 == 0 ? "A" : "B", "key-" + name, body(name, name.endsWith("7")));
        message.putUserProperty("origin", "moved");
        return message;
    }

    static void sent(SendResult result, String name) {
        MessageQueue queue = result.getMessageQueue();
        say("SENT " + queue.getTopic() + " " + queue.getQueueId() + " " + result.getQueueOffset() + " " + name);
    }

    static void received(String group, MessageExt message) {
        String name = new String(message.getBody(), StandardCharsets.UTF_8).split(" ")[0];
        if (!("key-" + name).equals(message.getKeys()) || !"moved".equals(message.getUserProperty("origin")))
            throw new IllegalStateException("the properties of " + name + ": " + message.getProperties());
        if (name.endsWith("7") && message.getBody().length != body(name, true).length)
            throw new IllegalStateException("the body of " + name + " has " + message.getBody().length + " bytes");
        say("GOT " + group + " " + message.getTopic() + " " + message.getQueueId() + " " + message.getQueueOffset()
            + " " + name + " " + message.getReconsumeTimes());
        got.merge(message.getTopic(), 1, Integer::sum);
    }

    static void send(String topic, String prefix, int perQueue) throws Exception {
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        for (MessageQueue queue : queues)
            for (int n = 0; n < perQueue; n++) {
                String name = prefix + "-" + queue.getQueueId() + "-" + n;
                sent(producer.send(message(topic, name), queue), name);
            }
    }

    static void made(String topic) throws Exception {
        sent(producer.send(message(topic, "first-" + topic)), "first-" + topic);
        for (int n = 0; n < 100; n++) {
            try {
                if (!producer.fetchPublishMessageQueues(topic).isEmpty()) return;
            } catch (Exception notYet) { // the name server does not know it yet
            }
            Thread.sleep(200);
        }
        throw new AssertionError("topic " + topic + " has no route");
    }

    static void prepare(boolean timers) throws Exception {
        for (String topic : new String[] {"Orders", "Jobs", "Later", "Paid"}) made(topic);
        send("Orders", "o", PER_QUEUE);
        send("Jobs", "j", JOBS);
        transactions();
        half();
        later(timers); // the last: its messages are due in a minute, behind the broker's stop
        Map<String, Integer> counts = Map.of("Jobs", 1 + QUEUES * JOBS, "Later", timers ? 5 : 3, "Paid", 3);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String topic : counts.keySet()) consumers.add(pushed("CG_" + topic.toLowerCase(), topic, true));
        until(() -> counts.entrySet().stream().allMatch(each -> got.getOrDefault(each.getKey(), 0) == each.getValue()), "all messages");
        Thread.sleep(3000); // those that failed are sent back
        for (DefaultMQPushConsumer consumer : consumers) consumer.shutdown();
    }

    static void later(boolean timers) throws Exception {
        for (int n = 0; n < 5; n++) {
            Message message = message("Later", "level-" + n);
            message.setDelayTimeLevel(n < 2 ? 1 : ONE_MINUTE);
            sent(producer.send(message), "level-" + n);
        }
        for (int n = 0; timers && n < 5; n++) {
            Message message = message("Later", "timer-" + n);
            long due = System.currentTimeMillis() + (n < 2 ? 3000 : 75000);
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(due));
            sent(producer.send(message), "timer-" + n);
        }
    }

    static TransactionMQProducer transactional() throws Exception {
        TransactionMQProducer paid = new TransactionMQProducer("PG_paid");
        paid.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                String name = (String) argument;
                if (name.startsWith("commit")) return LocalTransactionState.COMMIT_MESSAGE;
                return name.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String name = new String(message.getBody(), StandardCharsets.UTF_8).split(" ")[0];
                say("ASKED " + name);
                asked.add(name);
                if (!resuming) return LocalTransactionState.UNKNOW;
                return name.equals("open-2") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return started(paid);
    }

    static boolean resuming;

    static void transactions() throws Exception {
        TransactionMQProducer paid = transactional();
        for (String name : new String[] {"commit-0", "commit-1", "rollback-0", "open-0", "open-1", "open-2"})
            sent(paid.sendMessageInTransaction(message("Paid", name), name), name);
        until(() -> asked.containsAll(List.of("open-0", "open-1", "open-2")), "each is asked about, and stored again by its broker");
        paid.shutdown();
    }

    // Half of the messages, by a client that says itself where it is.
    static void half() throws Exception {
        DefaultLitePullConsumer consumer = configured(new DefaultLitePullConsumer("CG_half"));
        consumer.setAutoCommit(false);
        consumer.setPullBatchSize(5);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("Orders", "*");
        consumer.start();
        int seen = 0;
        for (int n = 0; n < 60 && seen < 2 * PER_QUEUE; n++) {
            List<MessageExt> some = consumer.poll(1000);
            for (MessageExt message : some) received("CG_half", message);
            seen += some.size();
            consumer.commitSync();
        }
        consumer.shutdown();
    }

    // What the broker has stored for a group.
    @SuppressWarnings("deprecation")
    static void offsets(String group, String topic) throws Exception {
        DefaultMQPullConsumer consumer = configured(new DefaultMQPullConsumer(group));
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic))
            say("OFFSET " + group + " " + topic + " " + queue.getQueueId() + " " + consumer.fetchConsumeOffset(queue, true));
        consumer.shutdown();
    }

    static DefaultMQPushConsumer pushed(String group, String topic, boolean fails) throws Exception {
        DefaultMQPushConsumer consumer = configured(new DefaultMQPushConsumer(group));
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                received(group, message);
                String name = new String(message.getBody(), StandardCharsets.UTF_8).split(" ")[0];
                if (fails && topic.equals("Jobs") && (name.endsWith("-3") || name.endsWith("-4"))) {
                    context.setDelayLevelWhenNextConsume(name.endsWith("-3") ? ONE_MINUTE : -1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    static void resume(int count, int seconds) throws Exception {
        resuming = true;
        TransactionMQProducer paid = transactional();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        consumers.add(pushed("CG_half", "Orders", false));
        consumers.add(pushed("CG_jobs", "Jobs", false));
        consumers.add(pushed("CG_later", "Later", false));
        consumers.add(pushed("CG_paid", "Paid", false));
        consumers.add(pushed("CG_dead", "%DLQ%CG_jobs", false));
        send("Orders", "n", 2);
        // A producer of 5.5 is known to the broker once it has sent something.
        sent(paid.sendMessageInTransaction(message("Paid", "commit-new"), "commit-new"), "commit-new");
        for (int n = 0; n < seconds * 10 && got.values().stream().mapToInt(each -> each).sum() < count; n++) Thread.sleep(100);
        Thread.sleep(5000); // nothing comes twice
        for (DefaultMQPushConsumer consumer : consumers) consumer.shutdown();
        paid.shutdown();
    }
}

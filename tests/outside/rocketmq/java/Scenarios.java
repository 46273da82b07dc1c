// Scenarios of RocketMQ's own Java client: java Scenarios ADDRESS SCENARIO. Status 0: it holds.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Scenarios {
    static String address;
    static final String TOPIC = "Orders";

    public static void main(String[] given) {
        try {
            play(given);
            System.out.println("HOLDS " + given[1]);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }

    static void play(String[] given) throws Exception {
        System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
        address = given[0];
        switch (given[1]) {
            case "sends": sends(); break;
            case "consumes": consumes(); break;
            case "tags": tags(); break;
            case "shares": shares(); break;
            case "orderly": orderly(); break;
            case "litepull": litePull(); break;
            case "continues": continues(); break;
            default: throw new IllegalArgumentException(given[1]);
        }
    }

    static void check(boolean holds, String claim) {
        if (!holds) throw new AssertionError(claim);
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG");
        producer.setNamesrvAddr(address);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(20000);
        producer.start();
        return producer;
    }

    static DefaultMQPushConsumer consumer(String group, String instance, String filter) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setVipChannelEnabled(false);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(TOPIC, filter);
        return consumer;
    }

    static Message message(String tag, String key, String body) {
        return new Message(TOPIC, tag, key, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    // A sync, an async, a one-way, a batched and a compressed send are stored, each once.
    static void sends() throws Exception {
        DefaultMQProducer producer = producer();
        SendResult first = producer.send(message("A", "k1", "sync"));
        check(first.getSendStatus() == SendStatus.SEND_OK, "sync " + first);
        check(first.getOffsetMsgId().length() == 32, "the broker's id " + first);
        CountDownLatch sent = new CountDownLatch(20);
        for (int n = 0; n < 20; n++)
            producer.send(message("A", "k" + n, "async" + n), new SendCallback() {
                public void onSuccess(SendResult result) { sent.countDown(); }
                public void onException(Throwable error) { error.printStackTrace(); }
            });
        check(sent.await(30, TimeUnit.SECONDS), "async");
        producer.sendOneway(message("A", "k", "oneway"));
        SendResult batch = producer.send(Arrays.asList(message("A", "b1", "batch1"), message("A", "b2", "batch2")));
        check(batch.getOffsetMsgId().split(",").length == 2, "batch " + batch);
        char[] large = new char[100000];
        Arrays.fill(large, 'x');
        check(producer.send(message("A", "large", new String(large))).getSendStatus() == SendStatus.SEND_OK, "large");
        Set<String> got = received("sends", 25, "*");
        check(got.contains("sync") && got.contains("oneway") && got.contains("batch2"), "got " + got.size());
        check(got.contains(new String(large)), "the compressed body is read");
        producer.shutdown();
    }

    static Set<String> received(String group, int count, String filter) throws Exception {
        Set<String> got = Collections.newSetFromMap(new ConcurrentHashMap<>());
        AtomicInteger all = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("CG_" + group, group, filter);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) { got.add(text(message)); all.incrementAndGet(); }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 400 && got.size() < count; n++) Thread.sleep(100);
        Thread.sleep(1000);
        consumer.shutdown();
        check(all.get() == got.size(), "each once: " + all.get() + " of " + got.size());
        return got;
    }

    // A push consumer gets key, tags and user properties as they were sent.
    static void consumes() throws Exception {
        DefaultMQProducer producer = producer();
        Message sent = message("A", "key", "größe");
        sent.putUserProperty("größe", "3");
        String id = producer.send(sent).getMsgId();
        List<MessageExt> got = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = consumer("CG_consumes", "one", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 300 && got.isEmpty(); n++) Thread.sleep(100);
        check(got.size() == 1, "got " + got);
        MessageExt message = got.get(0);
        check(text(message).equals("größe"), text(message));
        check(message.getKeys().equals("key") && message.getTags().equals("A"), message.toString());
        check(message.getUserProperty("größe").equals("3"), message.toString());
        check(message.getMsgId().equals(id), message.getMsgId() + " is " + id);
        check(message.getReconsumeTimes() == 0, message.toString());
        // What is sent now arrives by the parked pull.
        long begin = System.nanoTime();
        producer.send(message("A", "key", "later"));
        for (int n = 0; n < 3000 && got.size() < 2; n++) Thread.sleep(10);
        check(got.size() == 2, "the second");
        check(TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begin) < 10, "soon");
        consumer.shutdown();
        producer.shutdown();
    }

    static void tags() throws Exception {
        DefaultMQProducer producer = producer();
        for (String tag : new String[] {"A", "B", "C", "AaAa", "BBBB"}) producer.send(message(tag, "k", tag));
        check(received("ab", 2, "A || B").equals(new TreeSet<>(Arrays.asList("A", "B"))), "A or B");
        check(received("hash", 1, "AaAa").equals(new TreeSet<>(Arrays.asList("AaAa"))), "AaAa");
        producer.shutdown();
    }

    // Two members of a group share the queues; nothing is lost when one leaves.
    static void shares() throws Exception {
        Map<String, Set<Integer>> queues = new ConcurrentHashMap<>();
        Set<String> got = Collections.newSetFromMap(new ConcurrentHashMap<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "0"));
        for (String name : new String[] {"one", "two"}) {
            DefaultMQPushConsumer consumer = consumer("CG_shares", name, "*");
            queues.put(name, Collections.newSetFromMap(new ConcurrentHashMap<>()));
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) { got.add(text(message)); queues.get(name).add(message.getQueueId()); }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        Thread.sleep(5000);
        queues.values().forEach(Set::clear);
        for (int n = 1; n <= 200; n++) producer.send(message("A", "k", "" + n));
        for (int n = 0; n < 300 && got.size() < 201; n++) Thread.sleep(100);
        check(got.size() == 201, "got " + got.size());
        Set<Integer> both = new TreeSet<>(queues.get("one"));
        both.retainAll(queues.get("two"));
        check(both.isEmpty() && queues.get("one").size() == 2 && queues.get("two").size() == 2, "shared " + queues);
        consumers.get(0).shutdown();
        for (int n = 201; n <= 300; n++) producer.send(message("A", "k", "" + n));
        for (int n = 0; n < 600 && got.size() < 301; n++) Thread.sleep(100);
        check(got.size() == 301, "after one left " + got.size());
        consumers.get(1).shutdown();
        producer.shutdown();
    }

    // An orderly consumer locks its queues and gets their messages in order.
    static void orderly() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 100; n++)
            producer.send(message("A", "k", "" + n), (all, message, key) -> all.get((Integer) key % all.size()), n);
        Map<Integer, List<Integer>> got = new ConcurrentHashMap<>();
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("CG_orderly", "one", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                got.computeIfAbsent(message.getQueueId(), id -> Collections.synchronizedList(new ArrayList<>()))
                    .add(Integer.parseInt(text(message)));
                count.incrementAndGet();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 400 && count.get() < 100; n++) Thread.sleep(100);
        check(count.get() == 100, "got " + count.get());
        for (List<Integer> queue : got.values()) {
            List<Integer> sorted = new ArrayList<>(queue);
            Collections.sort(sorted);
            check(sorted.equals(queue), "in order " + queue);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    static void litePull() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 20; n++) producer.send(message("A", "k", "" + n));
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("CG_lite");
        consumer.setNamesrvAddr(address);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.start();
        Set<String> got = new TreeSet<>();
        for (int n = 0; n < 60 && got.size() < 20; n++)
            for (MessageExt message : consumer.poll(500)) got.add(text(message));
        check(got.size() == 20, "got " + got.size());
        consumer.shutdown();
        producer.shutdown();
    }

    // A group that returns goes on behind what it has consumed.
    static void continues() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 20; n++) producer.send(message("A", "k", "first" + n));
        check(received("continues", 20, "*").size() == 20, "first");
        for (int n = 0; n < 20; n++) producer.send(message("A", "k", "away" + n));
        Set<String> got = received("continues", 20, "*");
        check(got.size() == 20, "got " + got.size());
        for (String body : got) check(body.startsWith("away"), body);
        producer.shutdown();
    }
}

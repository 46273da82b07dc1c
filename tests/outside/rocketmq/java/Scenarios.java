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
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
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
            case "sql": sql(); break;
            case "shares": shares(); break;
            case "orderly": orderly(); break;
            case "litepull": litePull(); break;
            case "continues": continues(); break;
            case "retries": retries(); break;
            case "delays": delays(); break;
            case "recalls": recalls(); break;
            case "transactions": transactions(); break;
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
        producer.setMqClientApiTimeout(20000); // a JVM's first TLS handshake can take seconds
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
        consumer.setMqClientApiTimeout(20000);
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

    // The broker filters by SQL92: its client does not filter again.
    static void sql() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 10; n++) {
            Message sent = message("A", "k", "m" + n);
            sent.putUserProperty("n", String.valueOf(n));
            producer.send(sent);
        }
        producer.send(message("A", "k", "none"));
        DefaultMQPushConsumer consumer = consumer("CG_sql", "one", "*");
        consumer.subscribe(TOPIC, MessageSelector.bySql("n BETWEEN 3 AND 4 OR n IS NULL OR n IN ('9')"));
        List<MessageExt> got = listening(consumer, 0);
        waitFor(got, 4);
        Thread.sleep(1000);
        Set<String> texts = new TreeSet<>();
        for (MessageExt message : got) texts.add(text(message));
        check(got.size() == 4 && texts.equals(new TreeSet<>(Arrays.asList("m3", "m4", "m9", "none"))), "got " + texts);
        consumer.shutdown();
        DefaultMQPushConsumer wrong = consumer("CG_wrong", "two", "*");
        wrong.subscribe(TOPIC, MessageSelector.bySql("n >"));
        wrong.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        try {
            wrong.start();
            check(false, "bad SQL starts");
        } catch (MQClientException refused) {
            check(refused.getResponseCode() == 23, refused.toString());
        } finally {
            wrong.shutdown();
            producer.shutdown();
        }
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

    static List<MessageExt> listening(DefaultMQPushConsumer consumer, int failures) throws Exception {
        List<MessageExt> got = Collections.synchronizedList(new ArrayList<>());
        consumer.setPollNameServerInterval(1000);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            context.setDelayLevelWhenNextConsume(1);
            return got.size() <= failures ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return got;
    }

    static void waitFor(List<MessageExt> got, int count) throws Exception {
        for (int n = 0; n < 900 && got.size() < count; n++) Thread.sleep(100);
        Thread.sleep(2500);
        check(got.size() == count, "got " + got.size() + " of " + count + " " + got);
    }

    // A message that fails is tried again, then is a dead letter, which another group consumes.
    static void retries() throws Exception {
        DefaultMQProducer producer = producer();
        Message sent = message("A", "key", "poison");
        sent.putUserProperty("größe", "3");
        String id = producer.send(sent).getMsgId();
        DefaultMQPushConsumer consumer = consumer("CG_retries", "one", "*");
        consumer.setMaxReconsumeTimes(2);
        List<MessageExt> got = listening(consumer, 3);
        waitFor(got, 3);
        for (int n = 0; n < 3; n++) {
            MessageExt message = got.get(n);
            check(message.getReconsumeTimes() == n, n + " " + message);
            check(message.getTopic().equals(TOPIC) && message.getMsgId().equals(id), n + " " + message);
            check(text(message).equals("poison") && message.getUserProperty("größe").equals("3"), n + " " + message);
        }
        consumer.shutdown();
        DefaultMQPushConsumer letters = consumer("CG_letters", "two", "*");
        letters.unsubscribe(TOPIC);
        letters.subscribe("%DLQ%CG_retries", "*");
        List<MessageExt> dead = listening(letters, 0);
        waitFor(dead, 1);
        MessageExt letter = dead.get(0);
        check(letter.getMsgId().equals(id) && letter.getReconsumeTimes() == 3, letter.toString());
        check(letter.getProperty("RETRY_TOPIC").equals(TOPIC), letter.toString());
        check(letter.getProperty("ORIGIN_MESSAGE_ID").length() == 32, letter.toString());
        check(letter.getUserProperty("größe").equals("3") && letter.getKeys().equals("key"), letter.toString());
        letters.shutdown();
        producer.shutdown();
    }

    // A level and a time delay a message; what is sent behind them is consumed before.
    static void delays() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "first"));
        DefaultMQPushConsumer consumer = consumer("CG_delays", "one", "*");
        Map<String, Long> got = new ConcurrentHashMap<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) got.put(text(message), System.currentTimeMillis());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 300 && got.isEmpty(); n++) Thread.sleep(100);
        long begin = System.currentTimeMillis();
        Message level = message("A", "k", "level");
        level.setDelayTimeLevel(1);
        check(producer.send(level).getSendStatus() == SendStatus.SEND_OK, "level");
        Message timer = message("A", "k", "timer");
        MessageAccessor.putProperty(timer, "TIMER_DELAY_MS", "1500");
        check(producer.send(timer).getSendStatus() == SendStatus.SEND_OK, "timer");
        Message far = message("A", "k", "far");
        MessageAccessor.putProperty(far, "TIMER_DELAY_SEC", "" + 86400 * 30);
        try {
            producer.send(far);
            check(false, "a delay of 30 days is refused");
        } catch (MQBrokerException refused) {
            check(refused.getResponseCode() == 13, refused.toString());
        }
        producer.send(message("A", "k", "now"));
        for (int n = 0; n < 300 && got.size() < 4; n++) Thread.sleep(100);
        check(got.size() == 4, "got " + got.keySet());
        check(got.get("level") - begin >= 1000 && got.get("timer") - begin >= 1500, "early " + got);
        check(got.get("now") < got.get("level") && got.get("level") < got.get("timer"), "order " + got);
        consumer.shutdown();
        producer.shutdown();
    }

    // A recalled message is not consumed, its neighbour is. 4.9 has no recall.
    static void recalls() throws Exception {
        DefaultMQProducer producer = producer();
        List<Object> handles = new ArrayList<>();
        for (String body : new String[] {"recalled", "kept"}) {
            Message message = message("A", "k", body);
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS", "4000");
            SendResult result = producer.send(message);
            handles.add(result.getClass().getMethod("getRecallHandle").invoke(result));
        }
        Object id = producer.getClass().getMethod("recallMessage", String.class, String.class)
            .invoke(producer, TOPIC, handles.get(0));
        check(id != null, "recalled");
        Set<String> got = received("recalls", 1, "*");
        Thread.sleep(3000);
        check(got.equals(Collections.singleton("kept")), "got " + got);
        producer.shutdown();
    }

    // Commits, rollbacks, and messages that the broker asks about until they are decided.
    static void transactions() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("PG_transactions");
        producer.setHeartbeatBrokerInterval(1000); // the broker knows its group sooner
        producer.setNamesrvAddr(address);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(20000);
        Map<String, AtomicInteger> asked = new ConcurrentHashMap<>();
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                return (LocalTransactionState) state;
            }
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int count = asked.computeIfAbsent(text(message), body -> new AtomicInteger()).incrementAndGet();
                if (count == 1) return LocalTransactionState.UNKNOW;
                return text(message).equals("late commit") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        producer.sendMessageInTransaction(message("A", "k", "commit"), LocalTransactionState.COMMIT_MESSAGE);
        producer.sendMessageInTransaction(message("A", "k", "rollback"), LocalTransactionState.ROLLBACK_MESSAGE);
        producer.sendMessageInTransaction(message("A", "k", "late commit"), LocalTransactionState.UNKNOW);
        producer.sendMessageInTransaction(message("A", "k", "late rollback"), LocalTransactionState.UNKNOW);
        Set<String> got = received("transactions", 2, "*");
        Thread.sleep(3000);
        check(got.equals(new TreeSet<>(Arrays.asList("commit", "late commit"))), "got " + got);
        check(asked.size() == 2, "asked " + asked);
        for (AtomicInteger count : asked.values()) check(count.get() == 2, "asked " + asked);
        producer.shutdown();
    }
}

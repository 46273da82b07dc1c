// Scenarios of consumers.
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

class Consuming extends Kit {
    // A push consumer gets key, tags and user properties as they were sent.
    static void push() throws Exception {
        DefaultMQProducer producer = producer();
        Message sent = message("A", "key", "größe");
        sent.putUserProperty("größe", "3");
        String id = producer.send(sent).getMsgId();
        List<MessageExt> got = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = consumer("push", "one", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> !got.isEmpty(), "the first");
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

    // A pull consumer reads each queue from an offset, asks for offsets, and is woken by a send.
    @SuppressWarnings("deprecation")
    static void pull() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 12; n++) producer.send(message(n % 3 == 0 ? "A" : "B", "k", "" + n));
        DefaultMQPullConsumer consumer = configured(new DefaultMQPullConsumer(groupOf("pull")));
        consumer.start();
        Set<String> got = new TreeSet<>(), tagged = new TreeSet<>();
        MessageQueue last = null;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long end = consumer.maxOffset(queue);
            check(consumer.minOffset(queue) == 0, "the first offset");
            check(consumer.searchOffset(queue, 0) == 0, "the offset of a time in the past");
            PullResult all = consumer.pull(queue, "*", 0, 32);
            check(all.getPullStatus() == PullStatus.FOUND && all.getNextBeginOffset() == end, "pull " + all);
            for (MessageExt message : all.getMsgFoundList()) got.add(text(message));
            PullResult some = consumer.pull(queue, "A", 0, 32);
            if (some.getMsgFoundList() != null) for (MessageExt message : some.getMsgFoundList()) tagged.add(text(message));
            check(consumer.pull(queue, "*", end, 32).getPullStatus() == PullStatus.NO_NEW_MSG, "at the end");
            check(consumer.pull(queue, "*", 100000, 32).getPullStatus() == PullStatus.OFFSET_ILLEGAL, "beyond the end");
            last = queue;
        }
        check(got.size() == 12, "got " + got);
        check(tagged.equals(new TreeSet<>(Arrays.asList("0", "3", "6", "9"))), "tagged " + tagged);
        MessageQueue queue = last;
        long end = consumer.maxOffset(queue);
        ExecutorService other = Executors.newSingleThreadExecutor();
        Future<PullResult> parked = other.submit(() -> consumer.pullBlockIfNotFound(queue, "*", end, 32));
        Thread.sleep(1000);
        producer.send(message("A", "k", "later"), queue);
        PullResult woken = parked.get(10, TimeUnit.SECONDS);
        check(woken.getMsgFoundList() != null && text(woken.getMsgFoundList().get(0)).equals("later"), "woken " + woken);
        other.shutdown();
        for (long offset : new long[] {2, 1}) {
            consumer.updateConsumeOffset(queue, offset);
            consumer.getOffsetStore().persist(queue);
            Thread.sleep(500);
            check(consumer.fetchConsumeOffset(queue, true) == offset, "the stored offset " + offset);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    static void litePull() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 20; n++) producer.send(message("A", "k", "" + n));
        DefaultLitePullConsumer consumer = configured(new DefaultLitePullConsumer(groupOf("lite")));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Set<String> got = new TreeSet<>();
        for (int n = 0; n < 60 && got.size() < 20; n++)
            for (MessageExt message : consumer.poll(500)) got.add(text(message));
        check(got.size() == 20, "got " + got.size());
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

    // The broker filters by SQL92: its client does not filter again.
    static void sql() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 10; n++) {
            Message sent = message("A", "k", "m" + n);
            sent.putUserProperty("n", String.valueOf(n));
            producer.send(sent);
        }
        producer.send(message("A", "k", "none"));
        DefaultMQPushConsumer consumer = consumer("sql", "one", "*");
        consumer.subscribe(topic, MessageSelector.bySql("n BETWEEN 3 AND 4 OR n IS NULL OR n IN ('9')"));
        List<MessageExt> got = listening(consumer, 0);
        waitFor(got, 4);
        Thread.sleep(1000);
        Set<String> texts = new TreeSet<>();
        for (MessageExt message : got) texts.add(text(message));
        check(got.size() == 4 && texts.equals(new TreeSet<>(Arrays.asList("m3", "m4", "m9", "none"))), "got " + texts);
        consumer.shutdown();
        DefaultMQPushConsumer wrong = consumer("wrong", "two", "*");
        wrong.subscribe(topic, MessageSelector.bySql("n >"));
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

    // An orderly consumer locks its queues and gets their messages in order.
    static void orderly() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 100; n++)
            producer.send(message("A", "k", "" + n), (all, message, key) -> all.get((Integer) key % all.size()), n);
        Map<Integer, List<Integer>> got = new ConcurrentHashMap<>();
        AtomicInteger count = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer("orderly", "one", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                got.computeIfAbsent(message.getQueueId(), id -> Collections.synchronizedList(new ArrayList<>()))
                    .add(Integer.parseInt(text(message)));
                count.incrementAndGet();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        until(() -> count.get() >= 100, "each message");
        check(count.get() == 100, "got " + count.get());
        for (List<Integer> queue : got.values()) {
            List<Integer> sorted = new ArrayList<>(queue);
            Collections.sort(sorted);
            check(sorted.equals(queue), "in order " + queue);
        }
        consumer.shutdown();
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
            DefaultMQPushConsumer consumer = consumer("shares", name, "*");
            queues.put(name, Collections.newSetFromMap(new ConcurrentHashMap<>()));
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) { got.add(text(message)); queues.get(name).add(message.getQueueId()); }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        for (DefaultMQPushConsumer consumer : consumers) until(() -> queues(consumer).size() == 2, "two queues each");
        until(() -> got.contains("0"), "the first message");
        queues.values().forEach(Set::clear);
        for (int n = 1; n <= 200; n++) producer.send(message("A", "k", "" + n));
        until(() -> got.size() == 201, "each message");
        Set<Integer> both = new TreeSet<>(queues.get("one"));
        both.retainAll(queues.get("two"));
        check(both.isEmpty() && queues.get("one").size() == 2 && queues.get("two").size() == 2, "shared " + queues);
        consumers.get(0).shutdown();
        for (int n = 201; n <= 300; n++) producer.send(message("A", "k", "" + n));
        until(() -> got.size() == 301, "each message after one left");
        consumers.get(1).shutdown();
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

    // Each member of a broadcasting group gets each message.
    static void broadcasting() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "0"));
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        List<List<MessageExt>> got = new ArrayList<>();
        for (String name : new String[] {"one", "two"}) {
            DefaultMQPushConsumer consumer = consumer("broadcasting", name, "*");
            for (Method method : DefaultMQPushConsumer.class.getMethods()) // the type's package differs between 4.9 and 5
                if (method.getName().equals("setMessageModel"))
                    for (Object model : method.getParameterTypes()[0].getEnumConstants())
                        if (model.toString().equals("BROADCASTING")) method.invoke(consumer, model);
            consumers.add(consumer);
            got.add(listening(consumer, 0));
        }
        for (List<MessageExt> each : got) waitFor(each, 1);
        got.forEach(List::clear);
        for (int n = 1; n <= 20; n++) producer.send(message("A", "k", "" + n));
        for (List<MessageExt> each : got) waitFor(each, 20);
        for (DefaultMQPushConsumer consumer : consumers) consumer.shutdown();
        producer.shutdown();
    }

    // Clients of a namespace write to and read from INST%topic, and see the topic's name without it.
    @SuppressWarnings("deprecation")
    static void namespaces() throws Exception {
        DefaultMQProducer producer = producer();
        DefaultMQProducer inside = new DefaultMQProducer("PG_inside");
        inside.setNamespace("INST");
        inside.setInstanceName("inside");
        started(inside);
        producer.send(message("A", "k", "outside"));
        check(inside.send(message("A", "k", "inside")).getSendStatus() == SendStatus.SEND_OK, "send");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(groupOf("namespaces"));
        consumer.setNamespace("INST");
        subscribed(consumer, "*");
        List<MessageExt> got = listening(consumer, 0);
        waitFor(got, 1);
        check(text(got.get(0)).equals("inside") && got.get(0).getTopic().equals(topic), "got " + got);
        DefaultMQPushConsumer plain = consumer("plain", "plain", "*");
        plain.unsubscribe(topic);
        plain.subscribe("INST%" + topic, "*");
        List<MessageExt> same = listening(plain, 0);
        waitFor(same, 1);
        check(text(same.get(0)).equals("inside"), "got " + same);
        plain.shutdown();
        consumer.shutdown();
        inside.shutdown();
        producer.shutdown();
    }
}

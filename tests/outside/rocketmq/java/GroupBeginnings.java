// Where groups begin, in cases that FirstStart.java does not play: java GroupBeginnings VERSION NAME_SERVER BROKER CASE...
// Prints a row for each case, as FirstStart does: version | case | what was there | setting | what happened.
// A line "DO what" on standard output asks for the operator's action, a line on standard input says that it is done.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public class GroupBeginnings {
    static final ConsumeFromWhere FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET;
    static final ConsumeFromWhere LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET;
    static final ConsumeFromWhere TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP;
    static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));
    static final String RUN = Long.toString(System.currentTimeMillis() / 1000 % 100000);
    static final int LARGE_MESSAGES = 3000, LARGE_BYTES = 4000;
    static final int SECONDS_MAX = 150, SETTLE_SECONDS_MAX = 25; // also on a busy machine
    static String version, names, broker;
    static DefaultMQAdminExt admin;
    static DefaultMQProducer producer;

    public static void main(String[] given) throws Exception {
        System.setProperty("rocketmq.client.rebalance.waitInterval", "2000");
        if (given[0].equals("member")) {
            memberInOwnProcess(given);
            return;
        }
        version = given[0];
        names = given[1];
        broker = given[2];
        admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(names);
        admin.setInstanceName("operator");
        admin.start();
        producer = new DefaultMQProducer("PG");
        producer.setNamesrvAddr(names);
        producer.setInstanceName("producer");
        producer.setSendMsgTimeout(10000);
        producer.setMqClientApiTimeout(10000); // also on a busy machine
        producer.setPollNameServerInterval(1000);
        producer.start();
        for (String name : Arrays.asList(given).subList(3, given.length)) {
            try {
                play(name);
            } catch (Throwable failure) {
                failure.printStackTrace();
                row(name, "", "", "failed: " + failure);
            }
        }
        System.exit(0);
    }

    static void play(String name) throws Exception {
        switch (name) {
            case "members": members(); break;
            case "killed": killed(true); killed(false); break;
            case "again": again(); break;
            case "ten": tenMessages(); break;
            case "numbers": drained(); break;
            case "hidden": hidden(FIRST); hidden(LAST); break;
            case "skip": skipByTime(); break;
            case "times": times("rocketmq"); break;
            case "foreign": for (String by : new String[]{"kafka", "kafka-dated", "amqp", "amqp-dated", "kafka-created", "kafka-created-dated"}) times(by); break;
            case "expired": expired(); break;
            default: throw new IllegalArgumentException(name);
        }
    }

    static void row(String name, String there, String setting, String outcome) {
        System.out.println("| " + version + " | " + name + " | " + there + " | " + setting + " | " + outcome + " |");
        System.out.flush();
    }

    static void operator(String what) throws Exception {
        System.out.println("DO " + what);
        System.out.flush();
        if (ANSWERS.readLine() == null) throw new IllegalStateException("the operator is gone");
    }

    static String said(ConsumeFromWhere from) {
        return from.name().replace("CONSUME_FROM_", "").replace("_OFFSET", "");
    }

    static void await(BooleanSupplier holds, String what) throws Exception {
        long end = System.currentTimeMillis() + SECONDS_MAX * 1000L;
        while (!holds.getAsBoolean()) {
            if (System.currentTimeMillis() > end) throw new AssertionError("not in time: " + what);
            Thread.sleep(50);
        }
    }

    // Topics and producers

    static String topic(String name, int queues) throws Exception {
        String topic = "GB" + RUN + "_" + name;
        numbers(topic, queues, queues);
        await(() -> {
            try {
                return producer.fetchPublishMessageQueues(topic).size() >= queues;
            } catch (Exception notYet) {
                return false;
            }
        }, "route of " + topic);
        return topic;
    }

    static String topicOfKafka(String name) throws Exception {
        String topic = "GB" + RUN + "_" + name;
        operator("create " + topic);
        return topic;
    }

    static void numbers(String topic, int read, int write) throws Exception {
        TopicConfig config = new TopicConfig(topic);
        config.setReadQueueNums(read);
        config.setWriteQueueNums(write);
        for (int tries = 1; ; tries++) {
            try {
                admin.createAndUpdateTopicConfig(broker, config);
                break;
            } catch (Exception slow) {
                if (tries == 5) throw slow;
            }
        }
        Thread.sleep(500);
    }

    static void send(String topic, String prefix, int perQueue) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) send(queue, prefix, perQueue);
    }

    static void send(MessageQueue queue, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            byte[] body = (prefix + "-" + queue.getQueueId() + "-" + i).getBytes(StandardCharsets.UTF_8);
            producer.send(new Message(queue.getTopic(), "A", "k", body), queue);
        }
    }

    /** A producer that sends every 10 ms, to any queue. */
    static class Load {
        final Set<String> sent = ConcurrentHashMap.newKeySet();
        volatile boolean stopped;
        final Thread thread;

        Load(String topic) {
            thread = new Thread(() -> {
                for (int i = 0; !stopped; i++) {
                    try {
                        producer.send(new Message(topic, "A", "k", ("load-" + i).getBytes(StandardCharsets.UTF_8)));
                        sent.add("load-" + i);
                        Thread.sleep(10);
                    } catch (Exception refused) {
                        // A producer with an old route; the message was not sent.
                    }
                }
            });
            thread.start();
        }

        void stop() throws Exception {
            stopped = true;
            thread.join();
        }
    }

    // Consumers

    static class Member {
        final DefaultMQPushConsumer consumer;
        final List<String> got = new CopyOnWriteArrayList<>();
        final List<MessageExt> messages = new CopyOnWriteArrayList<>();
        final Map<Integer, Long> first = new ConcurrentSkipListMap<>();
        volatile long last = System.currentTimeMillis();
        volatile int slowMs = 0;
        final AtomicInteger handled = new AtomicInteger();

        Member(String group, String instance, ConsumeFromWhere from, int pollMs, String... topics) throws Exception {
            consumer = new DefaultMQPushConsumer(group);
            consumer.setNamesrvAddr(names);
            consumer.setMqClientApiTimeout(10000); // also on a busy machine: its start fails without a route
            consumer.setInstanceName(instance);
            consumer.setConsumeFromWhere(from);
            consumer.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(System.currentTimeMillis()));
            consumer.setConsumeThreadMin(2);
            consumer.setConsumeThreadMax(2);
            consumer.setPollNameServerInterval(pollMs);
            for (String topic : topics) consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (all, context) -> {
                for (MessageExt message : all) {
                    messages.add(message);
                    first.merge(message.getQueueId(), message.getQueueOffset(), Math::min);
                    got.add(new String(message.getBody(), StandardCharsets.UTF_8));
                }
                last = System.currentTimeMillis();
                if (slowMs > 0) UtilAll.sleep(slowMs);
                handled.addAndGet(all.size());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }

        Member start() throws Exception {
            consumer.start();
            return this;
        }

        int queues(String topic) {
            return (int) consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream().filter(queue -> queue.getTopic().equals(topic)).count();
        }

        /** Sends the offsets to the broker at once, not at the next interval. */
        void store() throws Exception {
            Thread.sleep(500);
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            Thread.sleep(500);
        }

        long times(String prefix) {
            return got.stream().filter(body -> body.startsWith(prefix + "-")).count();
        }
    }

    static Member member(String group, String instance, ConsumeFromWhere from, String... topics) throws Exception {
        return new Member(group, instance, from, 2000, topics).start();
    }

    /** Waits until members have what they should, but not longer than they would take on a busy machine, and 3 s without a message. */
    static void settle(BooleanSupplier complete, Member... members) throws Exception {
        long end = System.currentTimeMillis() + SETTLE_SECONDS_MAX * 1000L;
        while (true) {
            long now = System.currentTimeMillis(), last = 0;
            for (Member member : members) last = Math.max(last, member.last);
            if (now - last > 3000 && (now > end || complete.getAsBoolean())) return;
            Thread.sleep(100);
        }
    }

    static String missedAndTwice(String prefix, int sent, List<List<String>> lists) {
        List<String> all = new ArrayList<>();
        for (List<String> list : lists) for (String body : list) if (body.startsWith(prefix + "-")) all.add(body);
        int distinct = new HashSet<>(all).size();
        return "missed " + (sent - distinct) + ", twice " + (all.size() - distinct);
    }

    // Members join and leave

    static void members() throws Exception {
        String topic = topic("members", 4), group = "G" + RUN + "members";
        send(topic, "old", 2);
        Member one = member(group, "I1", FIRST, topic);
        await(() -> one.times("old") == 8, "old messages");
        one.store();
        Member two = member(group, "I2", LAST, topic);
        await(() -> one.queues(topic) == 2 && two.queues(topic) == 2, "two members");
        send(topic, "joined", 2);
        settle(() -> one.times("joined") + two.times("joined") >= 8, one, two);
        row("second instance joins", "8 consumed, 8 sent then", said(LAST), missedAndTwice("joined", 8, List.of(one.got, two.got)) + ", old again " + (one.times("old") + two.times("old") - 8) + ", its first offsets " + two.first);
        two.consumer.shutdown();
        send(topic, "left", 2);
        await(() -> one.queues(topic) == 4, "one member");
        settle(() -> one.times("left") >= 8, one);
        row("second instance leaves", "16 consumed, 8 sent then", said(FIRST), missedAndTwice("left", 8, List.of(one.got, two.got)) + ", joined again " + (one.times("joined") + two.times("joined") - 8));
        one.consumer.shutdown();
    }

    static void killed(boolean stored) throws Exception {
        String name = stored ? "stored" : "lost", topic = topic("killed" + name, 4), group = "G" + RUN + "killed" + name;
        Member one = member(group, "I1", FIRST, topic);
        Process process = new ProcessBuilder(
            "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home=" + System.getProperty("user.home"),
            "-cp", System.getProperty("java.class.path"), "GroupBeginnings", "member", names, group, topic, name
        ).redirectErrorStream(true).start();
        List<String> theirs = new CopyOnWriteArrayList<>();
        BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream()));
        Thread reader = new Thread(() -> output.lines().forEach(theirs::add));
        reader.start();
        try {
            await(() -> one.queues(topic) == 2 && theirs.contains("READY"), "two members");
            send(topic, "before", 2);
            await(() -> one.times("before") + theirs.stream().filter(line -> line.startsWith("before-")).count() == 8, "messages before");
            if (stored) {
                process.getOutputStream().write('\n');
                process.getOutputStream().flush();
                await(() -> theirs.contains("STORED"), "offsets stored");
                Thread.sleep(500);
            }
        } finally {
            process.destroyForcibly();
        }
        send(topic, "after", 2);
        await(() -> one.queues(topic) == 4, "one member");
        settle(() -> one.times("after") >= 8, one);
        row("second instance is killed", stored ? "8 consumed, its offsets stored, 8 sent then" : "8 consumed, its 4 offsets not stored, 8 sent then", said(FIRST), missedAndTwice("after", 8, List.of(one.got, theirs)) + ", before the kill: " + missedAndTwice("before", 8, List.of(one.got, theirs)));
        one.consumer.shutdown();
    }

    /** A member that prints what it gets, stores its offsets when a byte comes, and ends by a kill. */
    static void memberInOwnProcess(String[] given) throws Exception {
        names = given[1];
        PrintStream out = System.out;
        Member member = new Member(given[2], "I2", LAST, 2000, given[3]);
        // Offsets are lost if the kill comes before its messages are consumed: their thread is in the listener until then.
        if (given[4].equals("lost")) member.slowMs = SECONDS_MAX * 1000;
        member.consumer.setConsumeThreadMax(4);
        member.consumer.setConsumeThreadMin(4);
        member.start();
        await(() -> member.queues(given[3]) == 2, "two queues");
        out.println("READY");
        Thread printer = new Thread(() -> {
            for (int printed = 0; ; UtilAll.sleep(20)) {
                for (; printed < member.got.size(); printed++) out.println(member.got.get(printed));
                out.flush();
            }
        });
        printer.start();
        System.in.read();
        await(() -> member.handled.get() == 4, "consumed messages");
        member.store();
        out.println("STORED");
        out.flush();
    }

    // A topic that a group no longer subscribes to, and takes up again

    static void again() throws Exception {
        for (ConsumeFromWhere from : new ConsumeFromWhere[]{FIRST, LAST, TIMESTAMP}) {
            String topic = topic("again" + from.ordinal(), 2), other = topic("other" + from.ordinal(), 2), group = "G" + RUN + "again" + from.ordinal();
            send(topic, "old", 2);
            Member before = member(group, "I1", FIRST, topic, other);
            await(() -> before.times("old") == 4, "old messages");
            before.consumer.shutdown();
            Member without = member(group, "I1", FIRST, other);
            send(topic, "away", 3);
            send(other, "other", 1);
            await(() -> without.times("other") == 2, "the other topic");
            without.consumer.shutdown();
            Member back = member(group, "I1", from, topic, other);
            settle(() -> back.times("away") >= 6, back);
            row("topic unsubscribed and taken up again", "4 consumed, 6 sent while unsubscribed", said(from), "old again " + back.times("old") + ", backlog delivered " + back.times("away") + "/6, first offsets " + back.first);
            back.consumer.shutdown();
        }
    }

    static void expired() throws Exception {
        String topic = topic("expired", 1);
        send(topic, "old", 10);
        ConsumeFromWhere[] settings = {FIRST, LAST, TIMESTAMP};
        for (ConsumeFromWhere from : settings) {
            Member before = member("G" + RUN + "exp" + from.ordinal(), "I1", FIRST, topic);
            await(() -> before.times("old") == 10, "old messages");
            before.consumer.shutdown();
        }
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        byte[] body = new byte[LARGE_BYTES];
        Arrays.fill(body, (byte) 'x');
        for (int i = 0; i < LARGE_MESSAGES; i++) producer.send(new Message(topic, "A", "", body), queue);
        operator("expire " + topic);
        await(() -> minimum(queue) > 10, "expired messages");
        // RocketMQ deletes its files one after the other.
        for (long before = -1, now = minimum(queue); before != now; now = minimum(queue)) {
            before = now;
            Thread.sleep(version.equals("ours") ? 100 : 15000);
        }
        for (ConsumeFromWhere from : settings) {
            long min = minimum(queue), max = admin.maxOffset(queue);
            Member back = member("G" + RUN + "exp" + from.ordinal(), "I1", from, topic);
            // A client whose offset is too small waits 10 s, drops the queue, and gets it again.
            long end = System.currentTimeMillis() + 90000;
            while (back.got.size() < max - min && System.currentTimeMillis() < end) Thread.sleep(100);
            settle(() -> true, back);
            Long first = back.first.get(0);
            row("topic unsubscribed until its messages expired, and taken up again", "10 consumed, min offset far behind them", said(from), (first == null ? "begins at max" : first == min ? "begins at min" : "begins at min + " + (first - min)) + ", of the messages left delivered " + (back.got.size() == max - min ? "all" : back.got.size() == 0 ? "none" : back.got.size() + " of " + (max - min)));
            back.consumer.shutdown();
        }
    }

    static long minimum(MessageQueue queue) {
        try {
            return admin.minOffset(queue);
        } catch (Exception unreachable) {
            throw new IllegalStateException(unreachable);
        }
    }

    // Queues are added, hidden, shown again

    static void tenMessages() throws Exception {
        String topic = topic("ten", 3), group = "G" + RUN + "ten";
        send(topic, "old", 1);
        // It asks for its route when it starts and 10 s later: after the messages are sent.
        Member member = new Member(group, "I1", FIRST, 10000, topic).start();
        await(() -> member.times("old") == 3, "old messages");
        member.consumer.shutdown();
        Member online = new Member(group, "I1", LAST, 10000, topic).start();
        await(() -> online.queues(topic) == 3, "three queues");
        numbers(topic, 4, 4);
        String name = producer.fetchPublishMessageQueues(topic).get(0).getBrokerName();
        send(new MessageQueue(topic, name, 3), "ten", 10);
        if (online.queues(topic) != 3) throw new AssertionError("the consumer has the new queue already");
        await(() -> online.queues(topic) == 4, "four queues");
        send(new MessageQueue(topic, name, 3), "next", 2);
        settle(() -> online.times("ten") >= 10 && online.times("next") >= 2, online);
        row("queue added, ten messages sent before the group has it", "3 queues, group online", said(LAST), "delivered " + online.times("ten") + "/10, next " + online.times("next") + "/2");
        online.consumer.shutdown();
    }

    static void drained() throws Exception {
        String topic = topic("drained", 6), group = "G" + RUN + "drained";
        Member member = member(group, "I1", LAST, topic);
        await(() -> member.queues(topic) == 6, "six queues");
        Load load = new Load(topic);
        Thread.sleep(3000);
        numbers(topic, 6, 3);
        Thread.sleep(6000);
        numbers(topic, 3, 3);
        Thread.sleep(6000);
        load.stop();
        settle(() -> member.times("load") >= load.sent.size(), member);
        row("6 to 3 queues under load: write down, drain, read down", "6 queues, group online", said(LAST), missedAndTwice("load", load.sent.size(), List.of(member.got)));
        member.got.clear();
        Load more = new Load(topic);
        Thread.sleep(3000);
        numbers(topic, 6, 6);
        Thread.sleep(8000);
        more.stop();
        settle(() -> member.times("load") >= more.sent.size(), member);
        row("3 to 6 queues again under load", "3 of 6 queues hidden, group online", said(LAST), missedAndTwice("load", more.sent.size(), List.of(member.got)));
        member.consumer.shutdown();
    }

    static void hidden(ConsumeFromWhere from) throws Exception {
        String topic = topic("hidden" + from.ordinal(), 6), group = "G" + RUN + "hidden" + from.ordinal();
        send(topic, "old", 2);
        numbers(topic, 3, 3);
        Member member = member(group, "I1", from, topic);
        settle(() -> member.times("old") >= 6, member);
        long read = member.times("old");
        member.got.clear();
        numbers(topic, 6, 6);
        await(() -> member.queues(topic) == 6, "six queues");
        send(topic, "new", 1);
        settle(() -> member.times("old") >= 6 && member.times("new") >= 6, member);
        row("new group, 3 of 6 queues hidden, then shown", "12 old, 6 of them hidden", said(from), "old delivered " + read + ", when shown " + member.times("old") + " more, new " + member.times("new") + "/6");
        member.consumer.shutdown();
    }

    // Times of messages

    static void skipByTime() throws Exception {
        String topic = topic("skip", 3), group = "G" + RUN + "skip";
        send(topic, "old", 4);
        Thread.sleep(1200);
        long start = System.currentTimeMillis();
        Member member = member(group, "I1", LAST, topic);
        settle(() -> member.times("old") >= 12, member);
        long delivered = member.times("old");
        send(topic, "new", 2);
        settle(() -> member.times("new") >= 6, member);
        long born = member.messages.stream().filter(message -> message.getBornTimestamp() < start).count();
        long stored = member.messages.stream().filter(message -> message.getStoreTimestamp() < start).count();
        row("the consumer skips messages older than its start", "12 old in 3 queues", said(LAST), "old delivered " + delivered + ", of all skipped by born time " + born + ", by store time " + stored + ", new " + member.times("new") + "/6");
        member.consumer.shutdown();
    }

    /** Bodies are "old-…"; a dated message was made an hour before it is sent. */
    static void times(String by) throws Exception {
        String topic = by.contains("created") ? topicOfKafka("times" + by) : topic("times" + by, 1), group = "G" + RUN + "times" + by;
        long begin = System.currentTimeMillis();
        if (by.equals("rocketmq")) send(topic, "old", 3);
        else operator("send " + by + " " + topic);
        long end = System.currentTimeMillis();
        Thread.sleep(1200);
        long start = System.currentTimeMillis();
        send(topic, "new", 1);
        Member member = member(group, "I1", FIRST, topic);
        await(() -> member.times("old") == 3 && member.times("new") == 1, "messages");
        Set<String> born = new TreeSet<>(), stored = new TreeSet<>();
        for (MessageExt message : member.messages) {
            if (new String(message.getBody(), StandardCharsets.UTF_8).startsWith("new-")) continue;
            born.add(when(message.getBornTimestamp(), begin, end));
            stored.add(when(message.getStoreTimestamp(), begin, end));
        }
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        row("times of messages, sent by " + by, "3 messages", said(FIRST), "born " + born + ", stored " + stored + ", offset by time " + admin.searchOffset(queue, start));
        member.consumer.shutdown();
    }

    static String when(long time, long begin, long end) {
        if (time >= begin && time <= end) return "when sent";
        return Math.abs(begin - time - 3_600_000) < 60_000 ? "an hour before" : "at " + (time - begin) + " ms";
    }
}

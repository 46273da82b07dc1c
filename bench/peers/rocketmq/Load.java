import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * RocketMQ's own Java client under load. One process stays up for all measurements of a broker, so that its JVM is
 * warm: it reads a line for each, and prints one line of JSON.
 *
 * <pre>
 * sync TOPIC THREADS SECONDS | async TOPIC WINDOW SECONDS | push TOPIC MESSAGES | latency TOPIC RATE SECONDS
 * </pre>
 */
public final class Load {
    private static final byte[] BODY = new byte[1024];
    private static final int PULLED = 32;
    private static final int THREADS = 4;
    private static final double WARM_SHARE = 0.2;
    private static final int SECONDS_MAX = 100;
    private static DefaultMQProducer producer;
    private static String names;
    private static int consumers;

    private Load() { }

    public static void main(String[] arguments) throws Exception {
        names = arguments[0];
        Arrays.fill(BODY, (byte) 'x');
        producer = new DefaultMQProducer("PG_load");
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        System.out.println("ready");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            double number = words.length > 3 ? Double.parseDouble(words[3]) : 0;
            switch (words[0]) {
                case "sync" -> sync(words[1], Integer.parseInt(words[2]), number);
                case "async" -> async(words[1], Integer.parseInt(words[2]), number);
                case "push" -> push(words[1], Long.parseLong(words[2]));
                case "latency" -> latency(words[1], Integer.parseInt(words[2]), number);
                default -> throw new IllegalArgumentException(words[0]);
            }
        }
        System.exit(0);
    }

    private static void print(long messages, double seconds, long failed, double p50, double p99) {
        System.out.printf("{\"messages\": %d, \"seconds\": %.6f, \"failed\": %d, \"p50\": %.4f, \"p99\": %.4f}%n",
            messages, seconds, failed, p50, p99);
    }

    private static double since(long nanos) {
        return (System.nanoTime() - nanos) / 1e9;
    }

    private static void sync(String topic, int count, double seconds) throws Exception {
        AtomicLong sent = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        Thread[] threads = new Thread[count];
        long started = System.nanoTime();
        for (int one = 0; one < count; one++) {
            threads[one] = new Thread(() -> {
                while (since(started) < seconds) {
                    try {
                        producer.send(new Message(topic, BODY));
                        sent.incrementAndGet();
                    } catch (Exception problem) {
                        failed.incrementAndGet();
                    }
                }
            });
            threads[one].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        print(sent.get(), since(started), failed.get(), 0, 0);
    }

    private static void async(String topic, int window, double seconds) throws Exception {
        Semaphore room = new Semaphore(window);
        AtomicLong stored = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        long started = System.nanoTime();
        while (since(started) < seconds) {
            room.acquire();
            producer.send(new Message(topic, BODY), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    stored.incrementAndGet();
                    room.release();
                }

                @Override
                public void onException(Throwable problem) {
                    failed.incrementAndGet();
                    room.release();
                }
            });
        }
        room.acquire(window);
        print(stored.get(), since(started), failed.get(), 0, 0);
    }

    private static DefaultMQPushConsumer consumer(String topic, MessageListenerConcurrently listener) throws Exception {
        consumers++;
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("CG_load" + consumers);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName("consumer" + consumers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        return consumer;
    }

    /** From the first message to the last: how long a group takes to get its queues is not counted. */
    private static void push(String topic, long messages) throws Exception {
        AtomicLong taken = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(topic, (some, context) -> {
            long now = System.nanoTime();
            first.compareAndSet(0, now);
            if (taken.addAndGet(some.size()) >= messages && last.compareAndSet(0, now)) {
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.setConsumeThreadMin(THREADS);
        consumer.setConsumeThreadMax(THREADS);
        consumer.setConsumeMessageBatchMaxSize(PULLED);
        consumer.setPullBatchSize(PULLED);
        consumer.start();
        if (!all.await(SECONDS_MAX, TimeUnit.SECONDS)) {
            throw new IllegalStateException(taken.get() + " of " + messages + " messages came");
        }
        consumer.shutdown();
        print(messages, (last.get() - first.get()) / 1e9, 0, 0, 0);
    }

    private static void latency(String topic, int rate, double seconds) throws Exception {
        List<Long> taken = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = consumer(topic, (some, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : some) {
                taken.add(now - Long.parseLong(new String(message.getBody()).trim()));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        producer.send(new Message(topic, stamped()));
        while (taken.isEmpty()) {
            Thread.sleep(10);
        }
        Thread.sleep(1000);
        taken.clear();
        int count = (int) (rate * seconds);
        AtomicLong failed = new AtomicLong();
        long started = System.nanoTime();
        for (int number = 0; number < count; number++) {
            long due = started + number * 1_000_000_000L / rate;
            while (System.nanoTime() < due) {
                Thread.sleep(0, Math.toIntExact(Math.max(Math.min(due - System.nanoTime(), 500_000), 1)));
            }
            producer.send(new Message(topic, stamped()), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) { }

                @Override
                public void onException(Throwable problem) {
                    failed.incrementAndGet();
                }
            });
        }
        double elapsed = since(started);
        for (int waited = 0; taken.size() < count && waited < SECONDS_MAX * 100; waited++) {
            Thread.sleep(10);
        }
        if (taken.size() < count) {
            throw new IllegalStateException(taken.size() + " of " + count + " messages came, " + failed.get() + " sends failed");
        }
        List<Long> judged = new ArrayList<>(taken.subList((int) (count * WARM_SHARE), count));
        Collections.sort(judged);
        consumer.shutdown();
        print(count, elapsed, 0, judged.get(judged.size() / 2) / 1e6, judged.get(judged.size() * 99 / 100) / 1e6);
    }

    /** The time of sending in a body of 1 KB, in ns. */
    private static byte[] stamped() {
        return String.format("%-1024d", System.nanoTime()).getBytes();
    }
}

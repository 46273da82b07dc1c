// Scenarios of producers.
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.ArrayList;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

@SuppressWarnings("deprecation")
class Sending extends Kit {
    // Each sync send has SEND_OK, an id of the broker's and an offset; a large body is compressed.
    static void sync() throws Exception {
        DefaultMQProducer producer = producer();
        for (int n = 0; n < 5; n++) {
            SendResult result = producer.send(message("A", "k" + n, "sync" + n));
            check(result.getSendStatus() == SendStatus.SEND_OK, "sync " + result);
            check(result.getOffsetMsgId().length() == 32 && result.getQueueOffset() >= 0, "the broker's id " + result);
        }
        char[] large = new char[100000];
        Arrays.fill(large, 'x');
        check(producer.send(message("A", "large", new String(large))).getSendStatus() == SendStatus.SEND_OK, "large");
        Set<String> got = received("sync", 6, "*");
        check(got.size() == 6 && got.contains(new String(large)), "got " + got.size());
        producer.shutdown();
    }

    static void async() throws Exception {
        DefaultMQProducer producer = producer();
        CountDownLatch sent = new CountDownLatch(50);
        for (int n = 0; n < 50; n++)
            producer.send(message("A", "k" + n, "async" + n), new SendCallback() {
                public void onSuccess(SendResult result) { if (result.getSendStatus() == SendStatus.SEND_OK) sent.countDown(); }
                public void onException(Throwable error) { error.printStackTrace(); }
            });
        check(sent.await(30, TimeUnit.SECONDS), "missing callbacks: " + sent.getCount());
        check(received("async", 50, "*").size() == 50, "each is stored");
        producer.shutdown();
    }

    static void oneWay() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "first")); // creates the topic
        for (int n = 0; n < 10; n++) producer.sendOneway(message("A", "k", "oneway" + n));
        check(received("oneway", 11, "*").size() == 11, "each is stored");
        producer.shutdown();
    }

    static void batch() throws Exception {
        DefaultMQProducer producer = producer();
        List<Message> messages = new ArrayList<>();
        for (int n = 0; n < 10; n++) messages.add(message(n % 2 == 0 ? "A" : "B", "b" + n, "batch" + n));
        SendResult batch = producer.send(messages);
        check(batch.getOffsetMsgId().split(",").length == 10 && batch.getMsgId().split(",").length == 10, "batch " + batch);
        check(received("batch", 10, "*").size() == 10, "each is stored");
        check(received("half", 5, "B").size() == 5, "each has its tag");
        producer.shutdown();
    }

    // A producer's request is answered by the consumer of its topic, several at the same time.
    static void replies() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "first"));
        DefaultMQProducer answering = new DefaultMQProducer("PG_answering");
        answering.setInstanceName("answering");
        started(answering);
        DefaultMQPushConsumer consumer = consumer("replies", "answers", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages)
                try {
                    if (message.getProperty("CORRELATION_ID") == null) continue;
                    byte[] body = ("re: " + text(message)).getBytes();
                    answering.send(MessageUtil.createReplyMessage(message, body), 10000);
                } catch (Exception failure) { failure.printStackTrace(); return ConsumeConcurrentlyStatus.RECONSUME_LATER; }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(3000);
        List<String> got = new CopyOnWriteArrayList<>();
        List<Thread> asking = new ArrayList<>();
        for (int n = 0; n < 5; n++) {
            String question = "question " + n;
            Thread thread = new Thread(() -> {
                try {
                    got.add(question + " -> " + new String(producer.request(message("A", "k", question), 20000).getBody()));
                } catch (Exception failure) { failure.printStackTrace(); }
            });
            thread.start();
            asking.add(thread);
        }
        for (Thread thread : asking) thread.join(30000);
        check(got.size() == 5, "all are answered: " + got);
        for (int n = 0; n < 5; n++) check(got.contains("question " + n + " -> re: question " + n), "each its own: " + got);
        consumer.shutdown();
        answering.shutdown();
        producer.shutdown();
    }

    // Clients whose message trace is off write nothing to the trace topic.
    static void traceOff() throws Exception {
        DefaultMQProducer producer = started(new DefaultMQProducer("PG_untraced", null, false, null));
        long before = traced(producer);
        for (int n = 0; n < 5; n++) producer.send(message("A", "k", "" + n));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            groupOf("untraced"), null, new AllocateMessageQueueAveragely(), false, null);
        List<MessageExt> got = listening(subscribed(consumer, "*"), 0);
        waitFor(got, 5);
        consumer.shutdown();
        Thread.sleep(6000); // a dispatcher of traces sends every 5 s
        check(traced(producer) == before, "the trace topic has grown");
        producer.shutdown();
    }

    static long traced(DefaultMQProducer producer) {
        long count = 0;
        try {
            for (MessageQueue queue : producer.fetchPublishMessageQueues("RMQ_SYS_TRACE_TOPIC")) count += producer.maxOffset(queue);
        } catch (MQClientException missing) {
            return count;
        }
        return count;
    }
}

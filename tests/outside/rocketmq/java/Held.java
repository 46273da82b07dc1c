// Scenarios of messages that the broker holds: retries, delays, transactions.
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

class Held extends Kit {
    // A message that fails is tried again, then is a dead letter, which another group consumes.
    static void retries() throws Exception {
        DefaultMQProducer producer = producer();
        Message sent = message("A", "key", "poison");
        sent.putUserProperty("größe", "3");
        String id = producer.send(sent).getMsgId();
        DefaultMQPushConsumer consumer = consumer("retries", "one", "*");
        consumer.setMaxReconsumeTimes(2);
        List<MessageExt> got = listening(consumer, 3);
        waitFor(got, 3);
        for (int n = 0; n < 3; n++) {
            MessageExt message = got.get(n);
            check(message.getReconsumeTimes() == n, n + " " + message);
            check(message.getTopic().equals(topic) && message.getMsgId().equals(id), n + " " + message);
            check(text(message).equals("poison") && message.getUserProperty("größe").equals("3"), n + " " + message);
        }
        consumer.shutdown();
        DefaultMQPushConsumer letters = consumer("letters", "two", "*");
        letters.unsubscribe(topic);
        letters.subscribe("%DLQ%" + groupOf("retries"), "*");
        List<MessageExt> dead = listening(letters, 0);
        waitFor(dead, 1);
        MessageExt letter = dead.get(0);
        check(letter.getMsgId().equals(id) && letter.getReconsumeTimes() == 3, letter.toString());
        check(letter.getProperty("RETRY_TOPIC").equals(topic), letter.toString());
        check(letter.getProperty("ORIGIN_MESSAGE_ID").length() == 32, letter.toString());
        check(letter.getUserProperty("größe").equals("3") && letter.getKeys().equals("key"), letter.toString());
        letters.shutdown();
        producer.shutdown();
    }

    // A level and a time delay a message; what is sent behind them is consumed before.
    static void delays() throws Exception {
        DefaultMQProducer producer = producer();
        producer.send(message("A", "k", "first"));
        DefaultMQPushConsumer consumer = consumer("delays", "one", "*");
        Map<String, Long> got = new ConcurrentHashMap<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) got.put(text(message), System.currentTimeMillis());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        until(() -> !got.isEmpty(), "the first");
        long begin = System.currentTimeMillis();
        Message level = message("A", "k", "level");
        level.setDelayTimeLevel(2); // 5 s: a busy machine sends the others in this time, too
        check(producer.send(level).getSendStatus() == SendStatus.SEND_OK, "level");
        Message timer = message("A", "k", "timer");
        MessageAccessor.putProperty(timer, "TIMER_DELAY_MS", "7500");
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
        until(() -> got.size() == 4, "each message");
        check(got.get("level") - begin >= 5000 && got.get("timer") - begin >= 7500, "early " + got);
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
            .invoke(producer, topic, handles.get(0));
        check(id != null, "recalled");
        Set<String> got = received("recalls", 1, "*");
        Thread.sleep(3000);
        check(got.equals(Collections.singleton("kept")), "got " + got);
        producer.shutdown();
    }

    // Commits, rollbacks, and messages that the broker asks about until they are decided.
    static void transactions() throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("PG_" + topic);
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
        started(producer);
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

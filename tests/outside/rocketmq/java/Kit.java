// Parts that the scenarios share.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

class Kit {
    static String address, topic;

    static void check(boolean holds, String claim) {
        if (!holds) throw new AssertionError(claim);
    }

    static String groupOf(String name) {
        return "CG_" + name + "_" + topic;
    }

    /** Sets what each client has: on a busy machine an answer, or a first TLS handshake, takes seconds. */
    static <C extends ClientConfig> C configured(C client) {
        client.setNamesrvAddr(address);
        client.setVipChannelEnabled(false);
        client.setMqClientApiTimeout(20000);
        return client;
    }

    static DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer("PG"));
    }

    /** Starts a producer; returns when the name server has answered it: a send gives up a first connection that takes 3 s. */
    static <P extends DefaultMQProducer> P started(P producer) throws Exception {
        configured(producer).setSendMsgTimeout(20000);
        producer.setHeartbeatBrokerInterval(1000); // the first one is missed if the JVM is slow
        producer.start();
        for (int tries = 0; tries < 10; tries++) {
            try {
                producer.fetchPublishMessageQueues(producer.getCreateTopicKey());
                break;
            } catch (MQClientException failed) {
                if (!(failed.getCause() instanceof RemotingException)) break; // an answer, if not a route
            }
        }
        return producer;
    }

    static DefaultMQPushConsumer consumer(String group, String instance, String filter) throws Exception {
        DefaultMQPushConsumer consumer = subscribed(new DefaultMQPushConsumer(groupOf(group)), filter);
        consumer.setInstanceName(instance);
        return consumer;
    }

    static DefaultMQPushConsumer subscribed(DefaultMQPushConsumer consumer, String filter) throws Exception {
        configured(consumer).setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(topic, filter);
        return consumer;
    }

    /** The queues of the topic that a consumer has. */
    static Set<MessageQueue> queues(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).collect(Collectors.toSet());
    }

    static void until(BooleanSupplier holds, String claim) throws Exception {
        for (int n = 0; n < 900 && !holds.getAsBoolean(); n++) Thread.sleep(100);
        check(holds.getAsBoolean(), claim);
    }

    static Message message(String tag, String key, String body) {
        return new Message(topic, tag, key, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static Set<String> received(String group, int count, String filter) throws Exception {
        Set<String> got = Collections.newSetFromMap(new ConcurrentHashMap<>());
        AtomicInteger all = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer(group, group, filter);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) { got.add(text(message)); all.incrementAndGet(); }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 900 && got.size() < count; n++) Thread.sleep(100);
        Thread.sleep(1000);
        consumer.shutdown();
        check(all.get() == got.size(), "each once: " + all.get() + " of " + got.size());
        return got;
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
}

// Parts that the scenarios share.
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

class Kit {
    static String address, topic;

    static void check(boolean holds, String claim) {
        if (!holds) throw new AssertionError(claim);
    }

    static String groupOf(String name) {
        return "CG_" + name + "_" + topic;
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG");
        producer.setNamesrvAddr(address);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(20000);
        producer.setMqClientApiTimeout(20000); // also on a busy machine
        producer.setHeartbeatBrokerInterval(1000); // the first one is missed if the JVM is slow
        producer.setMqClientApiTimeout(20000); // a JVM's first TLS handshake can take seconds
        producer.start();
        return producer;
    }

    static DefaultMQPushConsumer consumer(String group, String instance, String filter) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(groupOf(group));
        consumer.setNamesrvAddr(address);
        consumer.setMqClientApiTimeout(20000); // also on a busy machine
        consumer.setVipChannelEnabled(false);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setMqClientApiTimeout(20000);
        consumer.subscribe(topic, filter);
        return consumer;
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
        for (int n = 0; n < 400 && got.size() < count; n++) Thread.sleep(100);
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

// RocketMQ's own Java client with AclClientRPCHook: java Signed ADDRESS KEY SECRET. Status 0: it holds.
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Signed {
    public static void main(String[] given) throws Exception {
        try {
            AclClientRPCHook hook = new AclClientRPCHook(new SessionCredentials(given[1], given[2]));
            DefaultMQProducer producer = new DefaultMQProducer("PG", hook);
            producer.setNamesrvAddr(given[0]);
            producer.setSendMsgTimeout(20000);
            producer.setMqClientApiTimeout(20000); // also on a busy machine
            producer.setMqClientApiTimeout(20000);
            producer.start();
            producer.send(new Message("Orders", "A", "größe", "größe".getBytes("UTF-8")));
            DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer("CG", hook, new AllocateMessageQueueAveragely());
            consumer.setNamesrvAddr(given[0]);
            consumer.setMqClientApiTimeout(20000);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe("Orders", "A");
            CountDownLatch got = new CountDownLatch(1);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                got.countDown();
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            if (!got.await(60, TimeUnit.SECONDS)) throw new IllegalStateException("nothing came");
            consumer.shutdown();
            producer.shutdown();
            System.out.println("HOLDS signed");
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }
}

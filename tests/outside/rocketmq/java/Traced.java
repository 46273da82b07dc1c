// RocketMQ's own Java client with enableMsgTrace: java Traced ADDRESS. Prints the message's UNIQ_KEY once it is consumed,
// and ends with its input: the clients send their traces meanwhile.
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class Traced {
    public static void main(String[] given) throws Exception {
        try {
            DefaultMQProducer producer = new DefaultMQProducer("PG_traced", true, null);
            producer.setNamesrvAddr(given[0]);
            producer.setSendMsgTimeout(20000);
            producer.setMqClientApiTimeout(20000); // also on a busy machine
            producer.start();
            SendResult sent = producer.send(new Message("Traced", "A", "k", "body".getBytes("UTF-8")));
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("CG_traced", true, null);
            consumer.setNamesrvAddr(given[0]);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe("Traced", "A");
            CountDownLatch got = new CountDownLatch(1);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                got.countDown();
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            if (!got.await(60, TimeUnit.SECONDS)) throw new IllegalStateException("nothing came");
            System.out.println("SENT " + sent.getMsgId());
            while (System.in.read() >= 0);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }
}

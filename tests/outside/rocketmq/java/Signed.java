// RocketMQ's own Java client with AclClientRPCHook: java Signed ADDRESS KEY SECRET. Status 0: it holds.
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

public class Signed extends Kit {
    public static void main(String[] given) throws Exception {
        try {
            address = given[0];
            topic = "Orders";
            AclClientRPCHook hook = new AclClientRPCHook(new SessionCredentials(given[1], given[2]));
            DefaultMQProducer producer = started(new DefaultMQProducer("PG", hook));
            producer.send(message("A", "größe", "größe"));
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("CG", hook, new AllocateMessageQueueAveragely());
            waitFor(listening(subscribed(consumer, "A"), 0), 1);
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

// RocketMQ's own Java client with enableMsgTrace: java Traced ADDRESS. Prints the message's UNIQ_KEY once it is consumed,
// and ends with its input: the clients send their traces meanwhile.
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;

public class Traced extends Kit {
    public static void main(String[] given) throws Exception {
        try {
            address = given[0];
            topic = "Traced";
            DefaultMQProducer producer = started(new DefaultMQProducer("PG_traced", true, null));
            SendResult sent = producer.send(message("A", "k", "body"));
            waitFor(listening(subscribed(new DefaultMQPushConsumer("CG_traced", true, null), "A"), 0), 1);
            System.out.println("SENT " + sent.getMsgId());
            while (System.in.read() >= 0);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }
}

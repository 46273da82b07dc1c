// Messages by their bodies: java Bodies ADDRESS TOPIC send, bodies in Base64 on standard input, one a line;
// java Bodies ADDRESS TOPIC read COUNT prints them so, those of COUNT messages and of all that come in a second more.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

public class Bodies {
    public static void main(String[] given) {
        try {
            if (given[2].equals("send")) send(given[0], given[1]);
            else read(given[0], given[1], Integer.parseInt(given[3]));
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }

    static void send(String address, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG_bodies");
        producer.setNamesrvAddr(address);
        producer.start();
        BufferedReader bodies = new BufferedReader(new InputStreamReader(System.in));
        for (String line = bodies.readLine(); line != null; line = bodies.readLine()) {
            Message message = new Message(topic, "A", "key", Base64.getDecoder().decode(line));
            if (producer.send(message).getSendStatus() != SendStatus.SEND_OK) throw new IllegalStateException(line);
        }
        producer.shutdown();
    }

    static void read(String address, String topic, int count) throws Exception {
        Queue<String> got = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("CG_bodies");
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) got.add(Base64.getEncoder().encodeToString(message.getBody()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int n = 0; n < 600 && got.size() < count; n++) Thread.sleep(100);
        Thread.sleep(1000);
        consumer.shutdown();
        for (String body : got) System.out.println(body);
    }
}

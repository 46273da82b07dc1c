// Runs RocketMQ's own mqadmin: java -Dlabels=PORT -Dclient=NAME AdminLines ADDRESS < LINES. One command a line, all in
// one JVM, each announced by "=== line", and as a scenario to the recorder at `labels`, if it is given. "sleep SECONDS"
// waits. A producer (PG_adm) and a push consumer (CG_adm) of AdmT stand by from the first consumerProgress on.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.command.MQAdminStartup;

public class AdminLines {
    static final long SECONDS_MAX = 20;

    public static void main(String[] given) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", given[0]);
        boolean clients = false;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("consumerProgress") && !clients) {
                clients = true;
                label("-");
                standBy(given[0]);
            }
            System.out.println("=== " + line);
            String[] words = line.split(" +");
            if (words[0].equals("sleep")) {
                Thread.sleep(Long.parseLong(words[1]) * 1000);
                continue;
            }
            label(System.getProperty("client", "admin5.5") + "/mqadmin " + line);
            Thread command = new Thread(() -> {
                try {
                    MQAdminStartup.main0(words, null);
                } catch (Throwable failure) {
                    System.out.println("! " + failure);
                }
            });
            command.setDaemon(true);
            command.start();
            command.join(SECONDS_MAX * 1000);
            if (command.isAlive()) System.out.println("! still running");
            System.out.flush();
        }
        label("-");
        System.out.println("=== end");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static void label(String scenario) throws Exception {
        Integer port = Integer.getInteger("labels");
        if (port == null) return;
        Thread.sleep(50);
        byte[] bytes = scenario.getBytes();
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.send(new DatagramPacket(bytes, bytes.length, InetAddress.getByName("127.0.0.1"), port));
        }
        Thread.sleep(30);
    }

    static void standBy(String address) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("CG_adm");
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName("adm");
        consumer.subscribe("AdmT", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        consumer.start();
        DefaultMQProducer producer = new DefaultMQProducer("PG_adm");
        producer.setNamesrvAddr(address);
        producer.setInstanceName("admp");
        producer.start();
        producer.send(new Message("AdmT", "x".getBytes()));
        Thread.sleep(3000);
    }
}

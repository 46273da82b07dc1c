// RabbitMQ's Java client through named scenarios: java -cp 'target/classes:target/libs/*' Scenarios URL NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Each has a connection of its own.

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import java.util.HashMap;
import java.util.Map;

public class Scenarios {
    interface Scenario {
        void run(Connection connection, Channel channel) throws Exception;
    }

    public static void main(String[] given) throws Exception {
        Kit.url = given[0];
        Map<String, Scenario> all = new HashMap<>();
        all.putAll(Connections.all());
        all.putAll(Publishing.all());
        all.putAll(Consuming.all());
        all.putAll(Queues.all());
        all.putAll(Exchanges.all());
        int failed = 0;
        for (int at = 1; at < given.length; at++) {
            Connection connection = Kit.connect();
            try {
                all.get(given[at]).run(connection, connection.createChannel());
                System.out.println("ok " + given[at]);
            } catch (Throwable error) {
                failed++;
                System.out.println("failed " + given[at] + ": " + error);
                error.printStackTrace();
            } finally {
                connection.abort(1000);
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}

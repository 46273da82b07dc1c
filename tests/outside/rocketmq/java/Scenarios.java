// Scenarios of RocketMQ's own Java client: java Scenarios ADDRESS SCENARIO TOPIC. Status 0: it holds.
import java.util.HashMap;
import java.util.Map;

public class Scenarios {
    interface Scenario {
        void play() throws Exception;
    }

    static Map<String, Scenario> all() {
        Map<String, Scenario> all = new HashMap<>();
        all.put("sync-send", Sending::sync);
        all.put("async-send", Sending::async);
        all.put("one-way-send", Sending::oneWay);
        all.put("batch-send", Sending::batch);
        all.put("request-reply", Sending::replies);
        all.put("trace-off", Sending::traceOff);
        all.put("push", Consuming::push);
        all.put("tls", Consuming::push);
        all.put("pull", Consuming::pull);
        all.put("lite-pull", Consuming::litePull);
        all.put("orderly", Consuming::orderly);
        all.put("tags", Consuming::tags);
        all.put("sql92", Consuming::sql);
        all.put("shared-group", Consuming::shares);
        all.put("returning-group", Consuming::continues);
        all.put("broadcasting", Consuming::broadcasting);
        all.put("namespaces", Consuming::namespaces);
        all.put("retries", Held::retries);
        all.put("delays", Held::delays);
        all.put("recall", Held::recalls);
        all.put("transactions", Held::transactions);
        return all;
    }

    public static void main(String[] given) {
        try {
            System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
            Kit.address = given[0];
            Kit.topic = given[2];
            all().get(given[1]).play();
            System.out.println("HOLDS " + given[1]);
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }
}

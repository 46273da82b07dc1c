// Exchanges: what is routed where.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import java.util.List;
import java.util.Map;

final class Exchanges {
    private Exchanges() {}

    static Map<String, Scenarios.Scenario> all() {
        return Map.of(
                "a-topic-exchange-matches-words", Exchanges::topic,
                "a-headers-exchange-matches-all-or-any", Exchanges::headers,
                "exchanges-are-bound-to-exchanges", Exchanges::bound,
                "an-alternate-exchange-takes-what-nobody-wants", Exchanges::alternate);
    }

    static String declared(Channel channel, BuiltinExchangeType kind, Map<String, Object> arguments) throws Exception {
        String name = Kit.unused("e");
        channel.exchangeDeclare(name, kind, false, true, arguments);
        return name;
    }

    static void publish(Channel channel, String exchange, String... keys) throws Exception {
        for (String key : keys) {
            channel.basicPublish(exchange, key, Kit.NONE, Kit.bytes(key));
        }
    }

    static void topic(Connection connection, Channel channel) throws Exception {
        String exchange = declared(channel, BuiltinExchangeType.TOPIC, Map.of());
        String orange = Kit.declared(channel);
        String second = Kit.declared(channel);
        channel.queueBind(orange, exchange, "*.orange.*");
        channel.queueBind(second, exchange, "*.*.rabbit");
        channel.queueBind(second, exchange, "lazy.#");
        publish(channel, exchange, "quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox",
                "lazy.pink.rabbit", "quick.brown.fox", "orange", "lazy.orange.male.rabbit", "lazy");
        Kit.equal(List.of("quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"),
                Kit.drained(channel, orange, 3));
        Kit.equal(List.of("quick.orange.rabbit", "lazy.orange.elephant", "lazy.brown.fox", "lazy.pink.rabbit",
                "lazy.orange.male.rabbit", "lazy"), Kit.drained(channel, second, 6));
        channel.queueUnbind(second, exchange, "lazy.#");
        publish(channel, exchange, "lazy.brown.fox", "slow.pink.rabbit");
        Kit.equal(List.of("slow.pink.rabbit"), Kit.drained(channel, second, 1));
    }

    static void headers(Connection connection, Channel channel) throws Exception {
        String exchange = declared(channel, BuiltinExchangeType.HEADERS, Map.of());
        String all = Kit.declared(channel);
        String any = Kit.declared(channel);
        channel.queueBind(all, exchange, "", Map.of("x-match", "all", "format", "pdf", "pages", 2));
        channel.queueBind(any, exchange, "", Map.of("x-match", "any", "format", "pdf", "pages", 2));
        List<Map<String, Object>> sent = List.of(
                Map.of("format", "pdf", "pages", 2, "more", "x"),
                Map.of("format", "pdf", "pages", 3),
                // A number is a number, however many bytes it has.
                Map.of("format", "zip", "pages", 2L),
                Map.of("format", "zip"));
        for (int at = 0; at < sent.size(); at++) {
            AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(sent.get(at)).build();
            channel.basicPublish(exchange, "", properties, Kit.bytes("" + at));
        }
        Kit.equal(List.of("0"), Kit.drained(channel, all, 1));
        Kit.equal(List.of("0", "1", "2"), Kit.drained(channel, any, 3));
    }

    static void bound(Connection connection, Channel channel) throws Exception {
        String source = declared(channel, BuiltinExchangeType.TOPIC, Map.of());
        String destination = declared(channel, BuiltinExchangeType.FANOUT, Map.of());
        String queue = Kit.declared(channel);
        channel.exchangeBind(destination, source, "orders.*");
        channel.queueBind(queue, destination, "");
        // Once, over however many ways it comes.
        channel.queueBind(queue, source, "orders.paid");
        publish(channel, source, "orders.paid", "letters.sent", "orders.sent");
        Kit.equal(List.of("orders.paid", "orders.sent"), Kit.drained(channel, queue, 2));
        channel.exchangeUnbind(destination, source, "orders.*");
        publish(channel, source, "orders.sent", "orders.paid");
        Kit.equal(List.of("orders.paid"), Kit.drained(channel, queue, 1));
    }

    static void alternate(Connection connection, Channel channel) throws Exception {
        String rest = declared(channel, BuiltinExchangeType.FANOUT, Map.of());
        String exchange = declared(channel, BuiltinExchangeType.DIRECT, Map.of("alternate-exchange", rest));
        String wanted = Kit.declared(channel);
        String unwanted = Kit.declared(channel);
        channel.queueBind(wanted, exchange, "wanted");
        channel.queueBind(unwanted, rest, "");
        publish(channel, exchange, "wanted", "else");
        Kit.equal(List.of("wanted"), Kit.drained(channel, wanted, 1));
        Kit.equal(List.of("else"), Kit.drained(channel, unwanted, 1));
    }
}

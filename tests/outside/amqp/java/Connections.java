// Connecting, being refused, and what becomes of a connection.

import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import java.net.Socket;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

final class Connections {
    private Connections() {}

    static Map<String, Scenarios.Scenario> all() {
        return Map.of(
                "the-server-says-what-it-can", Connections::properties,
                "a-wrong-password-is-refused", Connections::wrongPassword,
                "an-unknown-virtual-host-is-refused", Connections::unknownVirtualHost,
                "heartbeats-keep-an-idle-connection", Connections::heartbeats,
                "a-cut-connection-is-made-again", Connections::recovery,
                "a-refusal-closes-its-channel-alone", Connections::refusal,
                "what-is-not-implemented-closes-the-connection", Connections::immediate);
    }

    static void properties(Connection connection, Channel channel) {
        Map<String, Object> properties = connection.getServerProperties();
        Kit.equal("RabbitMQ", properties.get("product").toString());
        Kit.equal("4.0.5", properties.get("version").toString());
        Map<?, ?> capabilities = (Map<?, ?>) properties.get("capabilities");
        for (String name : List.of(
                "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
                "direct_reply_to")) {
            Kit.equal(true, capabilities.get(name));
        }
        Kit.equal(2047, connection.getChannelMax());
        Kit.equal(131072, connection.getFrameMax());
        Kit.equal(60, connection.getHeartbeat());
    }

    static void wrongPassword(Connection connection, Channel channel) throws Exception {
        ConnectionFactory factory = Kit.factory();
        factory.setPassword("wrong");
        try {
            factory.newConnection();
        } catch (AuthenticationFailureException refused) {
            Kit.check(refused.getMessage().contains("ACCESS_REFUSED - Login was refused"), refused.getMessage());
            return;
        }
        throw new AssertionError("a wrong password was taken");
    }

    static void unknownVirtualHost(Connection connection, Channel channel) throws Exception {
        ConnectionFactory factory = Kit.factory();
        factory.setVirtualHost("nowhere");
        Kit.refused(530, "NOT_ALLOWED - vhost nowhere not found", factory::newConnection);
    }

    static void heartbeats(Connection other, Channel unused) throws Exception {
        ConnectionFactory factory = Kit.factory();
        factory.setRequestedHeartbeat(1);
        factory.setAutomaticRecoveryEnabled(false);
        Connection connection = factory.newConnection();
        Kit.equal(1, connection.getHeartbeat());
        Thread.sleep(4000);
        Kit.declared(connection.createChannel());
        connection.close();
    }

    static void recovery(Connection other, Channel publishing) throws Exception {
        ConnectionFactory factory = Kit.factory();
        List<Socket> sockets = new CopyOnWriteArrayList<>();
        factory.setSocketConfigurator(sockets::add);
        factory.setNetworkRecoveryInterval(100);
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String exchange = Kit.unused("e");
            channel.exchangeDeclare(exchange, "direct", false, true, Map.of());
            // The broker names another queue when it is declared again: the client binds and consumes that one.
            String queue = channel.queueDeclare().getQueue();
            channel.queueBind(queue, exchange, "key");
            BlockingQueue<Delivery> got = Kit.consume(channel, queue, false);
            CountDownLatch recovered = new CountDownLatch(1);
            ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
                @Override
                public void handleRecovery(Recoverable recoverable) {
                    recovered.countDown();
                }

                @Override
                public void handleRecoveryStarted(Recoverable recoverable) {}
            });
            sockets.get(0).close();
            Kit.check(recovered.await(Kit.SECONDS_MAX, TimeUnit.SECONDS), "it did not recover");
            publishing.basicPublish(exchange, "key", Kit.NONE, Kit.bytes("again"));
            Delivery delivery = Kit.next(got);
            Kit.equal("again", Kit.text(delivery.getBody()));
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }
    }

    static void refusal(Connection connection, Channel channel) throws Exception {
        Channel still = connection.createChannel();
        Kit.refused(404, "NOT_FOUND - no queue 'none' in vhost '/'", () -> channel.queueDeclarePassive("none"));
        Kit.check(!channel.isOpen(), "the channel is open still");
        Channel second = connection.createChannel();
        Kit.refused(404, "NOT_FOUND - no exchange 'none' in vhost '/'", () -> second.exchangeDeclarePassive("none"));
        Channel third = connection.createChannel();
        third.basicPublish("none", "key", Kit.NONE, Kit.bytes("lost"));
        Kit.closes(404, "NOT_FOUND - no exchange 'none' in vhost '/'", third);
        Channel fourth = connection.createChannel();
        Kit.refused(
                403,
                "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
                () -> fourth.exchangeDeclare("amq.mine", "direct"));
        Kit.declared(still);
    }

    static void immediate(Connection other, Channel unused) throws Exception {
        ConnectionFactory factory = Kit.factory();
        factory.setAutomaticRecoveryEnabled(false);
        Channel channel = factory.newConnection().createChannel();
        channel.basicPublish("", "q", false, true, Kit.NONE, Kit.bytes("now"));
        Kit.closes(540, "NOT_IMPLEMENTED - immediate=true", channel);
        Kit.check(!channel.getConnection().isOpen(), "the connection is open still");
    }
}

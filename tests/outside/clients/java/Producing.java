// Producers and transactions with the Apache Java client: what is refused, fenced, timed out, and a killed broker.

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.record.TimestampType;

class Producing {
    static Map<String, Scenarios.Scenario> all() {
        Map<String, Scenarios.Scenario> found = new LinkedHashMap<>();
        found.put("producer-refusals", Producing::refusals);
        found.put("log-append-time", Producing::appendTime);
        found.put("producer-fenced", Producing::fenced);
        found.put("transaction-timeout", Producing::timeout);
        found.put("admin-transactions", Producing::admin);
        found.put("telemetry", Producing::telemetry);
        found.put("restart", Producing::restart);
        found.put("restart-transactions", Producing::restartTransactions);
        return found;
    }

    static void create(String topic, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Scenarios.common())) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(settings))).all().get();
        }
    }

    static void refusals(String topic) throws Exception {
        create(topic, Map.of("max.message.bytes", "1000", "message.timestamp.after.max.ms", "60000"));
        try (KafkaProducer<String, String> producer = Scenarios.producer()) {
            Groups.fails(RecordTooLargeException.class,
                () -> producer.send(new ProducerRecord<>(topic, "x".repeat(2000))).get());
            long late = System.currentTimeMillis() + 3_600_000;
            Groups.fails(InvalidTimestampException.class,
                () -> producer.send(new ProducerRecord<>(topic, 0, late, "k", "v")).get());
            Scenarios.check(producer.send(new ProducerRecord<>(topic, "k", "v")).get().offset() == 0, "after that");
        }
        create(topic + "-compacted", Map.of("cleanup.policy", "compact"));
        try (KafkaProducer<String, String> producer = Scenarios.producer()) {
            producer.send(new ProducerRecord<>(topic + "-compacted", null, "no key")).get();
            Scenarios.check(false, "a record without a key in a compacted topic");
        } catch (ExecutionException error) {
            Scenarios.check(error.getCause().getMessage().contains("key"), error.getCause());
        }
    }

    static void appendTime(String topic) throws Exception {
        create(topic, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        try (KafkaProducer<String, String> producer = Scenarios.producer()) {
            RecordMetadata told = producer.send(new ProducerRecord<>(topic, 0, 1000L, "k", "v")).get();
            Scenarios.check(told.timestamp() >= before, told.timestamp());
            ConsumerRecord<String, String> found = Scenarios.read(topic, 1).get(0);
            Scenarios.check(found.timestampType() == TimestampType.LOG_APPEND_TIME, found);
            Scenarios.check(found.timestamp() == told.timestamp(), found);
        }
    }

    static void fenced(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (KafkaProducer<String, String> first = Scenarios.producer("transactional.id", topic);
            KafkaProducer<String, String> second = Scenarios.producer("transactional.id", topic)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, "of the first"));
            first.flush();
            second.initTransactions();
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, "of the second"));
            try {
                first.commitTransaction();
                Scenarios.check(false, "two producers of one id");
            } catch (ProducerFencedException expected) {
                second.commitTransaction();
            }
        }
        List<ConsumerRecord<String, String>> found = Scenarios.read(topic, 1, "isolation.level", "read_committed");
        Scenarios.check(found.get(0).value().equals("of the second"), found);
    }

    static void timeout(String topic) throws Exception {
        Scenarios.create(topic, 1);
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Scenarios.common());
            KafkaProducer<String, String> producer =
                Scenarios.producer("transactional.id", topic, "transaction.timeout.ms", "1000");
            KafkaConsumer<String, String> reader = Scenarios.consumer("isolation.level", "read_committed")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "v")).get();
            Scenarios.check(reader.endOffsets(List.of(place)).get(place) == 0, "an open transaction is read");
            long until = Scenarios.deadline();
            while (state(admin, topic) != TransactionState.COMPLETE_ABORT && System.nanoTime() < until) {
                Thread.sleep(200);
            }
            Scenarios.check(state(admin, topic) == TransactionState.COMPLETE_ABORT, state(admin, topic));
            Scenarios.check(reader.endOffsets(List.of(place)).get(place) == 2, "the end stays behind");
            try {
                producer.commitTransaction();
                Scenarios.check(false, "committed after its time");
            } catch (KafkaException expected) {
                Scenarios.check(!(expected instanceof TimeoutException), expected);
            }
        }
    }

    static TransactionState state(Admin admin, String id) throws Exception {
        return admin.describeTransactions(List.of(id)).description(id).get().state();
    }

    static void admin(String topic) throws Exception {
        Scenarios.create(topic, 1);
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(Scenarios.common());
            KafkaProducer<String, String> producer = Scenarios.producer("transactional.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "v")).get();
            ProducerState open = admin.describeProducers(List.of(place)).partitionResult(place).get()
                .activeProducers().get(0);
            Scenarios.check(open.currentTransactionStartOffset().getAsLong() == 0, open);
            Scenarios.check(admin.listTransactions(new ListTransactionsOptions()
                .filterStates(List.of(TransactionState.ONGOING)).filterProducerIds(List.of(open.producerId())))
                .all().get().size() == 1, "listed");
            admin.abortTransaction(new AbortTransactionSpec(place, open.producerId(),
                (short) open.producerEpoch(), open.coordinatorEpoch().orElse(0))).all().get();
            Scenarios.check(admin.describeProducers(List.of(place)).partitionResult(place).get()
                .activeProducers().get(0).currentTransactionStartOffset().isEmpty(), "not aborted");
            admin.fenceProducers(List.of(topic)).all().get();
            try {
                producer.send(new ProducerRecord<>(topic, "w"));
                producer.commitTransaction();
                Scenarios.check(false, "a fenced producer commits");
            } catch (KafkaException expected) {
                Scenarios.check(!(expected instanceof TimeoutException), expected);
            }
            admin.forceTerminateTransaction(topic).result().get();
        }
    }

    static void telemetry(String topic) throws Exception {
        Scenarios.create(topic, 1);
        ConfigResource where = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, topic);
        ConfigEntry entry = new ConfigEntry("metrics", "org.apache.kafka.producer.");
        try (Admin admin = Admin.create(Scenarios.common())) {
            Scenarios.alter(admin, where, entry, AlterConfigOp.OpType.SET);
            try (KafkaProducer<String, String> producer = Scenarios.producer()) {
                producer.send(new ProducerRecord<>(topic, "v")).get();
                Scenarios.check(producer.clientInstanceId(Duration.ofSeconds(20)) != null, "no id");
            }
            Scenarios.alter(admin, where, entry, AlterConfigOp.OpType.DELETE);
        }
    }

    static void askForRestart() throws Exception {
        System.out.println("restart me");
        System.in.read();
    }

    /** An idempotent producer and a group's member outlive a kill -9: all is there once, in order. */
    static void restart(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (KafkaProducer<String, String> producer = Scenarios.producer("linger.ms", "5");
            KafkaConsumer<String, String> reader = Scenarios.consumer("group.id", topic)) {
            reader.subscribe(List.of(topic));
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            List<String> values = new ArrayList<>();
            for (int at = 0; at < 3000; at++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "v" + at)));
                if (at == 1000) {
                    long until = Scenarios.deadline();
                    while (values.size() < 500 && System.nanoTime() < until) {
                        reader.poll(Scenarios.TICK).forEach(one -> values.add(one.value()));
                    }
                    reader.commitSync();
                }
                if (at == 1500) {
                    askForRestart();
                }
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            long until = Scenarios.deadline();
            while (values.size() < 3000 && System.nanoTime() < until) {
                reader.poll(Scenarios.TICK).forEach(one -> values.add(one.value()));
            }
            reader.commitSync();
            List<String> wanted = new ArrayList<>();
            for (int at = 0; at < 3000; at++) {
                wanted.add("v" + at);
            }
            Scenarios.check(values.equals(wanted), values.size() + " records, or not in order");
        }
    }

    /** The broker is killed with a transaction open: it goes on, and what was aborted is not read. */
    static void restartTransactions(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (KafkaProducer<String, String> producer = Scenarios.producer("transactional.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "before")).get();
            askForRestart();
            producer.send(new ProducerRecord<>(topic, "after")).get();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "void")).get();
            askForRestart();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "last"));
            producer.commitTransaction();
        }
        List<String> values = new ArrayList<>();
        Scenarios.read(topic, 3, "isolation.level", "read_committed").forEach(one -> values.add(one.value()));
        Scenarios.check(values.equals(List.of("before", "after", "last")), values);
    }
}

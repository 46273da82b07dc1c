// The Apache Java client through named scenarios: java -cp 'target/classes:target/libs/*' Scenarios BOOTSTRAP NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Where it prints "restart me"
// it goes on when it reads a line: the broker is to be killed and started meanwhile. How it says who it is, if the
// broker wants to know, is in the file of properties that CLIENT_PROPERTIES names.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Scenarios {
    interface Scenario {
        void run(String topic) throws Exception;
    }

    static final Duration TICK = Duration.ofMillis(200);
    static final long SECONDS_MAX = 60;
    static String bootstrap;

    public static void main(String[] given) {
        bootstrap = given[0];
        Map<String, Scenario> all = new LinkedHashMap<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.put("produce-consume-" + codec, topic -> produceConsume(topic, codec));
        }
        all.put("headers-tombstones", Scenarios::headers);
        all.put("group-classic", topic -> group(topic, "classic"));
        all.put("group-consumer", topic -> group(topic, "consumer"));
        all.put("commit-and-resume", Scenarios::resume);
        all.put("admin-topics", Scenarios::adminTopics);
        all.put("admin-configs", Scenarios::adminConfigs);
        all.put("admin-records", Scenarios::adminRecords);
        all.put("admin-quotas", Scenarios::adminQuotas);
        all.put("transactions", Scenarios::transactions);
        all.put("exactly-once-copy", Scenarios::copy);
        all.put("share-group", Scenarios::share);
        all.putAll(Groups.all());
        all.putAll(Producing.all());
        all.putAll(Administration.all());
        all.putAll(Secured.all());
        int failed = 0;
        for (int at = 1; at < given.length; at++) {
            String name = given[at];
            try {
                all.get(name).run(name + "-" + UUID.randomUUID().toString().substring(0, 8));
                System.out.println("ok " + name);
            } catch (Throwable error) {
                failed++;
                System.out.println("failed " + name + ": " + error);
                error.printStackTrace();
            }
        }
        System.exit(failed > 0 ? 1 : 0);
    }

    static Properties common() {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        found.put("key.serializer", StringSerializer.class.getName());
        found.put("value.serializer", StringSerializer.class.getName());
        found.put("key.deserializer", StringDeserializer.class.getName());
        found.put("value.deserializer", StringDeserializer.class.getName());
        found.putAll(Secured.settings());
        return found;
    }

    static KafkaProducer<String, String> producer(String... pairs) {
        return new KafkaProducer<>(with(pairs));
    }

    static KafkaConsumer<String, String> consumer(String... pairs) {
        Properties given = with(pairs);
        given.putIfAbsent("auto.offset.reset", "earliest");
        given.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(given);
    }

    static Properties with(String... pairs) {
        Properties found = common();
        for (int at = 0; at < pairs.length; at += 2) {
            found.put(pairs[at], pairs[at + 1]);
        }
        return found;
    }

    static void create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(common())) {
            // As many replicas as the brokers make by default: one of a broker alone, three in a cluster.
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) -1))).all().get();
        }
    }

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static long deadline() {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
    }

    static void write(String topic, int count, String... pairs) throws Exception {
        try (KafkaProducer<String, String> producer = producer(pairs)) {
            for (int at = 0; at < count; at++) {
                producer.send(new ProducerRecord<>(topic, "k" + at % 10, "v" + at));
            }
        }
    }

    static List<ConsumerRecord<String, String>> read(String topic, int count, String... pairs) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(pairs)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(
                one -> all.add(new TopicPartition(topic, one.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long until = deadline();
            while (found.size() < count && System.nanoTime() < until) {
                consumer.poll(TICK).forEach(found::add);
            }
        }
        check(found.size() == count, found.size() + " records of " + count);
        return found;
    }

    static void produceConsume(String topic, String codec) throws Exception {
        create(topic, 3);
        write(topic, 1000, "compression.type", codec);
        Set<String> values = new HashSet<>();
        for (ConsumerRecord<String, String> one : read(topic, 1000)) {
            values.add(one.value());
        }
        check(values.size() == 1000, values.size());
    }

    static void headers(String topic) throws Exception {
        create(topic, 1);
        try (KafkaProducer<String, String> producer = producer("acks", "all")) {
            ProducerRecord<String, String> record =
                new ProducerRecord<>(topic, 0, 1_700_000_000_000L, "k", "v");
            record.headers().add("h", "x".getBytes(StandardCharsets.UTF_8)).add("n", null);
            check(producer.send(record).get().offset() == 0, "offset");
            producer.send(new ProducerRecord<>(topic, "k", null)).get();
        }
        List<ConsumerRecord<String, String>> found = read(topic, 2);
        check(found.get(0).timestamp() == 1_700_000_000_000L, found.get(0));
        check(found.get(0).headers().lastHeader("n").value() == null, found.get(0).headers());
        check(found.get(1).value() == null, found.get(1));
    }

    static void group(String topic, String protocol) throws Exception {
        create(topic, 4);
        write(topic, 400);
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        try {
            for (int at = 0; at < 2; at++) {
                KafkaConsumer<String, String> one =
                    consumer("group.id", topic, "group.protocol", protocol);
                one.subscribe(List.of(topic));
                members.add(one);
            }
            long until = deadline();
            boolean shared = false;
            while ((seen.size() < 400 || !shared) && System.nanoTime() < until) {
                Set<TopicPartition> held = new HashSet<>();
                int least = 4;
                for (KafkaConsumer<String, String> one : members) {
                    one.poll(TICK).forEach(record -> seen.add(record.value()));
                    held.addAll(one.assignment());
                    least = Math.min(least, one.assignment().size());
                }
                shared = held.size() == 4 && least == 2;
            }
            check(seen.size() == 400 && shared, seen.size() + " values, shared " + shared);
            members.remove(1).close();
            until = deadline();
            while (members.get(0).assignment().size() < 4 && System.nanoTime() < until) {
                members.get(0).poll(TICK);
            }
            check(members.get(0).assignment().size() == 4, members.get(0).assignment());
        } finally {
            members.forEach(KafkaConsumer::close);
        }
        try (Admin admin = Admin.create(common())) {
            admin.describeConsumerGroups(List.of(topic)).all().get();
            admin.deleteConsumerGroups(List.of(topic)).all().get();
        }
    }

    static void resume(String topic) throws Exception {
        create(topic, 1);
        write(topic, 100);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> first = consumer("group.id", topic)) {
            first.assign(List.of(place));
            first.commitSync(Map.of(place, new OffsetAndMetadata(40, "note")));
            check(first.committed(Set.of(place)).get(place).metadata().equals("note"), "metadata");
        }
        try (KafkaConsumer<String, String> second = consumer("group.id", topic)) {
            second.subscribe(List.of(topic));
            int count = 0;
            long until = deadline();
            while (count < 60 && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> one : second.poll(TICK)) {
                    check(one.offset() == 40 + count++, one.offset());
                }
            }
            check(count == 60, count);
        }
    }

    static void adminTopics(String topic) throws Exception {
        try (Admin admin = Admin.create(common())) {
            NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "77000"));
            admin.createTopics(List.of(wanted)).all().get();
            try {
                admin.createTopics(List.of(wanted)).all().get();
                check(false, "created twice");
            } catch (ExecutionException error) {
                check(error.getCause() instanceof TopicExistsException, error);
            }
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().size() == 5, "partitions");
            check(admin.listTopics().names().get().contains(topic), "list");
            check(admin.describeCluster().nodes().get().size() == 1, "nodes");
            check(admin.describeLogDirs(List.of(broker(admin))).allDescriptions().get().values()
                .iterator().next().values().iterator().next().totalBytes().isPresent(), "volume");
            admin.electLeaders(org.apache.kafka.common.ElectionType.PREFERRED, null).partitions().get();
            admin.deleteTopics(List.of(topic)).all().get();
            check(!admin.listTopics().names().get().contains(topic), "deleted");
        }
    }

    static int broker(Admin admin) throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    static void adminConfigs(String topic) throws Exception {
        create(topic, 1);
        try (Admin admin = Admin.create(common())) {
            for (ConfigResource where : List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, topic),
                new ConfigResource(ConfigResource.Type.GROUP, topic),
                new ConfigResource(ConfigResource.Type.CLIENT_METRICS, topic),
                new ConfigResource(ConfigResource.Type.BROKER, "" + broker(admin)))) {
                ConfigEntry entry = switch (where.type()) {
                    case TOPIC -> new ConfigEntry("retention.ms", "123456");
                    case GROUP -> new ConfigEntry("consumer.session.timeout.ms", "50000");
                    case CLIENT_METRICS -> new ConfigEntry("interval.ms", "10000");
                    default -> new ConfigEntry("log.cleaner.delete.retention.ms", "1000");
                };
                alter(admin, where, entry, AlterConfigOp.OpType.SET);
                check(value(admin, where, entry.name()).equals(entry.value()), where);
                alter(admin, where, entry, AlterConfigOp.OpType.DELETE);
                check(!value(admin, where, entry.name()).equals(entry.value()), where);
            }
        }
    }

    static void alter(Admin admin, ConfigResource where, ConfigEntry entry, AlterConfigOp.OpType how)
        throws Exception {
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(entry, how));
        admin.incrementalAlterConfigs(Map.of(where, change)).all().get();
    }

    static String value(Admin admin, ConfigResource where, String name) throws Exception {
        return admin.describeConfigs(List.of(where)).all().get().get(where).get(name).value();
    }

    static void adminRecords(String topic) throws Exception {
        create(topic, 1);
        write(topic, 100);
        TopicPartition place = new TopicPartition(topic, 0);
        try (Admin admin = Admin.create(common())) {
            admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(30))).all().get();
            for (Map.Entry<OffsetSpec, Long> one : Map.of(
                OffsetSpec.earliest(), 30L, OffsetSpec.latest(), 100L, OffsetSpec.earliestLocal(), 30L,
                OffsetSpec.latestTiered(), -1L, OffsetSpec.forTimestamp(0), 30L).entrySet()) {
                long found = admin.listOffsets(Map.of(place, one.getKey())).partitionResult(place)
                    .get().offset();
                check(found == one.getValue(), one.getKey().getClass() + " " + found);
            }
            long newest = admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp()))
                .partitionResult(place).get().offset();
            check(newest >= 30 && newest < 100, newest);
        }
        check(read(topic, 70).get(0).offset() == 30, "start");
    }

    static void adminQuotas(String topic) throws Exception {
        ClientQuotaEntity whose = new ClientQuotaEntity(Map.of("client-id", topic));
        try (Admin admin = Admin.create(common())) {
            quota(admin, whose, 4096.0);
            check(admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()
                .get(whose).get("producer_byte_rate") == 4096.0, "described");
            quota(admin, whose, null);
            check(!admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()
                .containsKey(whose), "removed");
        }
    }

    static void quota(Admin admin, ClientQuotaEntity whose, Double value) throws Exception {
        List<ClientQuotaAlteration.Op> change =
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", value));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(whose, change))).all().get();
    }

    static void transactions(String topic) throws Exception {
        create(topic, 2);
        try (KafkaProducer<String, String> producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            for (int turn = 0; turn < 10; turn++) {
                producer.beginTransaction();
                for (int at = 0; at < 10; at++) {
                    producer.send(new ProducerRecord<>(topic, "k" + at, "v" + turn + "-" + at));
                }
                if (turn % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        for (ConsumerRecord<String, String> one : read(topic, 50, "isolation.level", "read_committed")) {
            check((one.value().charAt(1) - '0') % 2 == 0, one.value());
        }
        read(topic, 100);
        try (Admin admin = Admin.create(common())) {
            check(admin.describeTransactions(List.of(topic)).description(topic).get() != null, "state");
            check(!admin.listTransactions().all().get().isEmpty(), "listed");
        }
    }

    static void copy(String topic) throws Exception {
        String target = topic + "-copy";
        create(topic, 1);
        create(target, 1);
        write(topic, 300);
        int copied = 0;
        while (copied < 300) {
            copied += copySome(topic, target);
        }
        Map<String, Integer> counts = new HashMap<>();
        read(target, 300, "isolation.level", "read_committed")
            .forEach(one -> counts.merge(one.value(), 1, Integer::sum));
        check(counts.size() == 300, counts.size());
    }

    static int copySome(String topic, String target) {
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("group.id", topic, "max.poll.records", "50");
            KafkaProducer<String, String> producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            long until = deadline();
            while (System.nanoTime() < until) {
                List<ConsumerRecord<String, String>> some = new ArrayList<>();
                consumer.poll(TICK).forEach(some::add);
                if (some.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                some.forEach(one -> producer.send(new ProducerRecord<>(target, one.key(), one.value())));
                long next = some.get(some.size() - 1).offset() + 1;
                producer.sendOffsetsToTransaction(
                    Map.of(place, new OffsetAndMetadata(next)), consumer.groupMetadata());
                producer.commitTransaction();
                return some.size();
            }
        }
        throw new AssertionError("nothing to copy");
    }

    static void share(String topic) throws Exception {
        create(topic, 1);
        try (Admin admin = Admin.create(common())) {
            alter(admin, new ConfigResource(ConfigResource.Type.GROUP, topic),
                new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        }
        write(topic, 100);
        Set<String> seen = new HashSet<>();
        Properties given = with("group.id", topic);
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(given)) {
            consumer.subscribe(List.of(topic));
            long until = deadline();
            while (seen.size() < 100 && System.nanoTime() < until) {
                consumer.poll(TICK).forEach(one -> seen.add(one.value()));
                consumer.commitSync();
            }
        }
        check(seen.size() == 100, seen.size());
    }
}

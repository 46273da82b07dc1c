// Share groups (KIP-932) with the Apache Java client: java -cp 'target/classes:target/libs/*' ShareGroups BOOTSTRAP NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Scenario "restart" prints
// "restart me" and goes on when it reads a line: the broker is to be killed and started meanwhile.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class ShareGroups {
    interface Scenario {
        void run(String name) throws Exception;
    }

    static final Duration TICK = Duration.ofMillis(200);
    static final long SECONDS_MAX = 60;
    static String bootstrap;

    public static void main(String[] given) {
        bootstrap = given[0];
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("implicit", ShareGroups::implicit);
        all.put("explicit", ShareGroups::explicit);
        all.put("shared", ShareGroups::shared);
        all.put("lease", ShareGroups::lease);
        all.put("renew", ShareGroups::renew);
        all.put("limit", ShareGroups::limit);
        all.put("transactions", ShareGroups::transactions);
        all.put("offsets", ShareGroups::offsets);
        all.put("restart", ShareGroups::restart);
        int failed = 0;
        for (int at = 1; at < given.length; at++) {
            String name = given[at];
            try {
                all.get(name).run("share-" + name + "-" + UUID.randomUUID().toString().substring(0, 8));
                System.out.println("ok " + name);
            } catch (Throwable error) {
                failed++;
                System.out.println("failed " + name + ": " + error);
                error.printStackTrace();
            }
        }
        System.exit(failed > 0 ? 1 : 0);
    }

    // Scenarios: the topic and the group have the same name.

    static void implicit(String name) throws Exception {
        create(name, 2, Map.of());
        write(name, 100);
        Set<String> seen = new TreeSet<>();
        try (KafkaShareConsumer<String, String> one = consumer(name, "implicit")) {
            for (long until = deadline(); seen.size() < 100 && System.nanoTime() < until; ) {
                one.poll(TICK).forEach(record -> seen.add(record.value()));
            }
            one.commitSync();
        }
        check(seen.size() == 100, "seen " + seen.size());
        try (KafkaShareConsumer<String, String> other = consumer(name, "implicit")) {
            check(drain(other, 2).isEmpty(), "accepted records came again");
        }
    }

    static void explicit(String name) throws Exception {
        create(name, 1, Map.of());
        write(name, 10);
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit")) {
            for (ConsumerRecord<String, String> record : read(one, 10)) {
                check(record.deliveryCount().equals(Optional.of((short) 1)), "count " + record.deliveryCount());
                AcknowledgeType type = AcknowledgeType.ACCEPT;
                if (record.offset() % 3 == 1) type = AcknowledgeType.RELEASE;
                if (record.offset() % 3 == 2) type = AcknowledgeType.REJECT;
                one.acknowledge(record, type);
            }
            commit(one);
            List<ConsumerRecord<String, String>> again = read(one, 3);
            List<Long> offsets = new ArrayList<>();
            for (ConsumerRecord<String, String> record : again) {
                offsets.add(record.offset());
                check(record.deliveryCount().equals(Optional.of((short) 2)), "count " + record.deliveryCount());
                one.acknowledge(record);
            }
            check(offsets.equals(List.of(1L, 4L, 7L)), "released: " + offsets);
            commit(one);
            check(drain(one, 1).isEmpty(), "more came");
        }
    }

    static void shared(String name) throws Exception {
        create(name, 1, Map.of());
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit");
             KafkaShareConsumer<String, String> other = consumer(name, "explicit")) {
            one.poll(TICK);
            other.poll(TICK);
            Map<String, Integer> times = new HashMap<>();
            int mine = 0;
            int others = 0;
            int written = 0;
            for (long until = deadline(); times.size() < 400 && System.nanoTime() < until; ) {
                if (written < 400) {
                    write(name, 40, written);
                    written += 40;
                }
                mine += accept(one, times);
                others += accept(other, times);
            }
            check(times.size() == 400, "seen " + times.size());
            check(times.values().stream().allMatch(count -> count == 1), "some came twice");
            check(mine > 0 && others > 0, "one had " + mine + ", the other " + others);
        }
    }

    static void lease(String name) throws Exception {
        create(name, 1, Map.of("share.record.lock.duration.ms", "15000"));
        write(name, 2);
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit");
             KafkaShareConsumer<String, String> other = consumer(name, "explicit")) {
            check(read(one, 2).size() == 2, "both records");
            List<ConsumerRecord<String, String>> again = read(other, 2);
            // The first consumer fetches ahead in the background, so it may have had them twice.
            check(again.stream().allMatch(record -> record.deliveryCount().get() >= 2), again);
            again.forEach(other::acknowledge);
            commit(other);
        }
    }

    static void renew(String name) throws Exception {
        create(name, 1, Map.of("share.record.lock.duration.ms", "15000"));
        write(name, 1);
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit");
             KafkaShareConsumer<String, String> other = consumer(name, "explicit")) {
            ConsumerRecord<String, String> record = read(one, 1).get(0);
            for (int at = 0; at < 4; at++) {
                one.acknowledge(record, AcknowledgeType.RENEW);
                commit(one);
                check(drain(other, 5).isEmpty(), "another has it");
                record = read(one, 1).get(0);
            }
            one.acknowledge(record, AcknowledgeType.ACCEPT);
            commit(one);
        }
    }

    static void limit(String name) throws Exception {
        create(name, 1, Map.of("share.delivery.count.limit", "2"));
        write(name, 1);
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit")) {
            for (int at = 0; at < 2; at++) {
                read(one, 1).forEach(record -> one.acknowledge(record, AcknowledgeType.RELEASE));
                commit(one);
            }
            check(drain(one, 2).isEmpty(), "a third try");
        }
    }

    static void transactions(String name) throws Exception {
        create(name, 1, Map.of("share.isolation.level", "read_committed"));
        Properties given = producing();
        given.put("transactional.id", name);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(given)) {
            producer.initTransactions();
            for (int at = 0; at < 6; at++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(name, at % 2 == 0 ? "kept" + at : "void" + at));
                producer.flush();
                if (at % 2 == 0) producer.commitTransaction();
                else producer.abortTransaction();
            }
        }
        try (KafkaShareConsumer<String, String> one = consumer(name, "implicit")) {
            List<String> values = new ArrayList<>();
            read(one, 3).forEach(record -> values.add(record.value()));
            check(values.equals(List.of("kept0", "kept2", "kept4")), values);
            check(drain(one, 1).isEmpty(), "more came");
        }
    }

    static void offsets(String name) throws Exception {
        create(name, 1, Map.of());
        write(name, 10);
        TopicPartition part = new TopicPartition(name, 0);
        try (Admin admin = Admin.create(common())) {
            try (KafkaShareConsumer<String, String> one = consumer(name, "implicit")) {
                read(one, 10);
                one.commitSync();
                ShareGroupDescription group = admin.describeShareGroups(List.of(name)).describedGroups().get(name).get();
                check(group.members().size() == 1, group);
                check(group.groupState().toString().equals("Stable"), group);
            }
            check(start(admin, name, part) == 10, "start " + start(admin, name, part));
            Set<String> listed = new TreeSet<>();
            for (GroupListing group : admin.listGroups().all().get()) listed.add(group.groupId());
            check(listed.contains(name), listed);
            admin.alterShareGroupOffsets(name, Map.of(part, 4L)).all().get();
            check(start(admin, name, part) == 4, "altered " + start(admin, name, part));
            try (KafkaShareConsumer<String, String> one = consumer(name, "implicit")) {
                check(read(one, 6).get(0).offset() == 4, "begins elsewhere");
                one.commitSync();
            }
            admin.deleteShareGroupOffsets(name, Set.of(name)).all().get();
            try (KafkaShareConsumer<String, String> one = consumer(name, "implicit")) {
                check(read(one, 10).get(0).offset() == 0, "does not begin anew");
            }
            admin.deleteShareGroups(List.of(name)).all().get();
        }
    }

    static void restart(String name) throws Exception {
        create(name, 1, Map.of());
        write(name, 20);
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit")) {
            for (ConsumerRecord<String, String> record : read(one, 20)) {
                one.acknowledge(record, record.offset() % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
            }
            commit(one);
            read(one, 10).forEach(record -> check(record.offset() % 2 == 1, "came again: " + record.offset()));
            System.out.println("restart me");
            System.in.read();
        } catch (KafkaException error) {
            System.out.println("as may be, the broker being away: " + error);
        }
        try (KafkaShareConsumer<String, String> one = consumer(name, "explicit")) {
            Map<Long, Short> again = new TreeMap<>();
            for (ConsumerRecord<String, String> record : read(one, 10)) {
                again.put(record.offset(), record.deliveryCount().get());
                one.acknowledge(record);
            }
            commit(one);
            check(again.keySet().stream().allMatch(offset -> offset % 2 == 1), "accepted ones came again: " + again);
            check(again.values().stream().allMatch(count -> count >= 2), "counts are forgotten: " + again);
            check(drain(one, 2).isEmpty(), "more came");
        }
    }

    // Parts

    static long start(Admin admin, String group, TopicPartition part) throws Exception {
        var found = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()));
        return found.partitionsToOffsetInfo(group).get().get(part).startOffset();
    }

    static int accept(KafkaShareConsumer<String, String> one, Map<String, Integer> times) {
        int count = 0;
        for (ConsumerRecord<String, String> record : one.poll(TICK)) {
            times.merge(record.value(), 1, Integer::sum);
            one.acknowledge(record);
            count++;
        }
        commit(one);
        return count;
    }

    static void commit(KafkaShareConsumer<String, String> one) {
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result : one.commitSync().entrySet()) {
            check(result.getValue().isEmpty(), result);
        }
    }

    static List<ConsumerRecord<String, String>> read(KafkaShareConsumer<String, String> one, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        for (long until = deadline(); found.size() < count && System.nanoTime() < until; ) {
            one.poll(TICK).forEach(found::add);
        }
        check(found.size() == count, "read " + found.size() + " of " + count);
        return found;
    }

    static List<ConsumerRecord<String, String>> drain(KafkaShareConsumer<String, String> one, int seconds) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        for (long until = System.nanoTime() + seconds * 1_000_000_000L; System.nanoTime() < until; ) {
            one.poll(TICK).forEach(found::add);
        }
        return found;
    }

    static void create(String name, int partitions, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(common())) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
            List<AlterConfigOp> changes = new ArrayList<>();
            Map<String, String> all = new HashMap<>(settings);
            all.put("share.auto.offset.reset", "earliest");
            all.forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
    }

    static void write(String name, int count) {
        write(name, count, 0);
    }

    static void write(String name, int count, int from) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing())) {
            for (int at = from; at < from + count; at++) {
                producer.send(new ProducerRecord<>(name, "v" + at));
            }
        }
    }

    static KafkaShareConsumer<String, String> consumer(String group, String mode) {
        Properties given = common();
        given.put("group.id", group);
        given.put("share.acknowledgement.mode", mode);
        given.put("key.deserializer", StringDeserializer.class.getName());
        given.put("value.deserializer", StringDeserializer.class.getName());
        KafkaShareConsumer<String, String> one = new KafkaShareConsumer<>(given);
        one.subscribe(List.of(group));
        return one;
    }

    static Properties producing() {
        Properties given = common();
        given.put("key.serializer", StringSerializer.class.getName());
        given.put("value.serializer", StringSerializer.class.getName());
        return given;
    }

    static Properties common() {
        Properties given = new Properties();
        given.put("bootstrap.servers", bootstrap);
        return given;
    }

    static long deadline() {
        return System.nanoTime() + SECONDS_MAX * 1_000_000_000L;
    }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(String.valueOf(what));
    }
}

// Groups with the Apache Java client: static members, cooperative assignment, expressions, upgrades, administration.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.WakeupException;

class Groups {
    static Map<String, Scenarios.Scenario> all() {
        Map<String, Scenarios.Scenario> found = new LinkedHashMap<>();
        found.put("group-static-classic", topic -> fixed(topic, "classic"));
        found.put("group-static-consumer", topic -> fixed(topic, "consumer"));
        found.put("group-cooperative", Groups::cooperative);
        found.put("group-regex-classic", topic -> expression(topic, "classic"));
        found.put("group-regex-consumer", topic -> expression(topic, "consumer"));
        found.put("group-upgrade", Groups::upgrade);
        found.put("group-too-slow", Groups::tooSlow);
        found.put("consumer-places", Groups::places);
        found.put("admin-groups", Groups::admin);
        return found;
    }

    /** What a member was told: how often something was given and taken. */
    static class Told implements ConsumerRebalanceListener {
        int given;
        final List<TopicPartition> taken = new ArrayList<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            given++;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            taken.addAll(partitions);
        }
    }

    static boolean poll(Collection<KafkaConsumer<String, String>> members, int... wanted) {
        for (long until = Scenarios.deadline(); System.nanoTime() < until; ) {
            int at = 0;
            boolean right = true;
            for (KafkaConsumer<String, String> one : members) {
                one.poll(Duration.ofMillis(100));
                right &= one.assignment().size() == wanted[at++];
            }
            if (right) {
                return true;
            }
        }
        return false;
    }

    static void fixed(String topic, String protocol) throws Exception {
        Scenarios.create(topic, 4);
        String[] first = {"group.id", topic, "group.protocol", protocol, "group.instance.id", "first"};
        String[] second = {"group.id", topic, "group.protocol", protocol, "group.instance.id", "second"};
        Told told = new Told();
        KafkaConsumer<String, String> one = Scenarios.consumer(first);
        try (KafkaConsumer<String, String> other = Scenarios.consumer(second)) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic), told);
            Scenarios.check(poll(List.of(one, other), 2, 2), "not shared");
            Set<TopicPartition> had = one.assignment();
            int given = told.given;
            int taken = told.taken.size();
            one.close();
            one = Scenarios.consumer(first);
            one.subscribe(List.of(topic));
            Scenarios.check(poll(List.of(one, other), 2, 2), "not shared again");
            Scenarios.check(one.assignment().equals(had), had + " became " + one.assignment());
            Scenarios.check(told.given == given && told.taken.size() == taken, "the other was disturbed");
        } finally {
            one.close();
        }
        try (Admin admin = Admin.create(Scenarios.common())) {
            RemoveMembersFromConsumerGroupOptions both = new RemoveMembersFromConsumerGroupOptions(
                List.of(new MemberToRemove("first"), new MemberToRemove("second")));
            admin.removeMembersFromConsumerGroup(topic, both).all().get();
            admin.deleteConsumerGroups(List.of(topic)).all().get();
        }
    }

    static void cooperative(String topic) throws Exception {
        Scenarios.create(topic, 4);
        String[] how = {"group.id", topic, "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"};
        Told told = new Told();
        try (KafkaConsumer<String, String> one = Scenarios.consumer(how);
            KafkaConsumer<String, String> other = Scenarios.consumer(how)) {
            one.subscribe(List.of(topic), told);
            Scenarios.check(poll(List.of(one), 4), "not all");
            other.subscribe(List.of(topic));
            Scenarios.check(poll(List.of(one, other), 2, 2), "not shared");
            Scenarios.check(told.taken.size() == 2, "taken " + told.taken);
        }
    }

    static void expression(String topic, String protocol) throws Exception {
        Scenarios.create(topic + "-a", 1);
        Scenarios.create("not-" + topic, 1);
        try (KafkaConsumer<String, String> one = Scenarios.consumer(
            "group.id", topic, "group.protocol", protocol, "metadata.max.age.ms", "500")) {
            if (protocol.equals("consumer")) {
                one.subscribe(new SubscriptionPattern(topic + "-[ab]"));
            } else {
                one.subscribe(Pattern.compile(topic + "-[ab]"));
            }
            Scenarios.check(poll(List.of(one), 1), one.assignment());
            Scenarios.create(topic + "-b", 2);
            Scenarios.check(poll(List.of(one), 3), one.assignment());
            try (Admin admin = Admin.create(Scenarios.common())) {
                admin.deleteTopics(List.of(topic + "-b")).all().get();
            }
            Scenarios.check(poll(List.of(one), 1), one.assignment());
        }
    }

    static GroupType type(Admin admin, String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).type();
    }

    static void upgrade(String topic) throws Exception {
        Scenarios.create(topic, 4);
        Scenarios.write(topic, 40);
        try (Admin admin = Admin.create(Scenarios.common());
            KafkaConsumer<String, String> old = Scenarios.consumer("group.id", topic)) {
            old.subscribe(List.of(topic));
            Scenarios.check(poll(List.of(old), 4), "not all");
            old.commitSync();
            Scenarios.check(type(admin, topic) == GroupType.CLASSIC, type(admin, topic));
            try (KafkaConsumer<String, String> newer =
                Scenarios.consumer("group.id", topic, "group.protocol", "consumer")) {
                newer.subscribe(List.of(topic));
                Scenarios.check(poll(List.of(old, newer), 2, 2), "not shared");
                Scenarios.check(type(admin, topic) == GroupType.CONSUMER, type(admin, topic));
                newer.commitSync();
                old.commitSync();
            }
            Scenarios.check(poll(List.of(old), 4), "not all again");
            Scenarios.check(type(admin, topic) == GroupType.CLASSIC, type(admin, topic));
        }
    }

    static void tooSlow(String topic) throws Exception {
        Scenarios.create(topic, 1);
        Scenarios.write(topic, 10);
        String[] how = {"group.id", topic, "max.poll.interval.ms", "3000", "session.timeout.ms", "10000"};
        try (KafkaConsumer<String, String> slow = Scenarios.consumer(how);
            KafkaConsumer<String, String> other = Scenarios.consumer(how)) {
            slow.subscribe(List.of(topic));
            Scenarios.check(poll(List.of(slow), 1), "nothing");
            other.subscribe(List.of(topic));
            Scenarios.check(poll(List.of(other), 1), "the slow one's partition is not given away");
            try {
                slow.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(5)));
                Scenarios.check(false, "a member that was put out commits");
            } catch (CommitFailedException expected) {
                Scenarios.check(!expected.getMessage().isEmpty(), expected);
            }
        }
    }

    static void places(String topic) throws Exception {
        Scenarios.create(topic, 1);
        Scenarios.write(topic, 100);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> one = Scenarios.consumer("group.id", topic)) {
            one.assign(List.of(place));
            Scenarios.check(one.beginningOffsets(List.of(place)).get(place) == 0, "begin");
            Scenarios.check(one.endOffsets(List.of(place)).get(place) == 100, "end");
            OffsetAndTimestamp first = one.offsetsForTimes(Map.of(place, 0L)).get(place);
            Scenarios.check(first.offset() == 0 && first.leaderEpoch().isPresent(), first);
            Scenarios.check(one.offsetsForTimes(Map.of(place, Long.MAX_VALUE)).get(place) == null, "late");
            one.seek(place, 90);
            int count = 0;
            for (long until = Scenarios.deadline(); count < 10 && System.nanoTime() < until; ) {
                count += one.poll(Scenarios.TICK).count();
            }
            Scenarios.check(count == 10 && one.position(place) == 100, count);
            Scenarios.check(one.currentLag(place).getAsLong() == 0, "lag");
            one.seekToBeginning(List.of(place));
            one.pause(List.of(place));
            Scenarios.check(one.poll(Duration.ofSeconds(1)).isEmpty(), "paused");
            one.resume(List.of(place));
            one.wakeup();
            try {
                one.poll(Duration.ofSeconds(1));
                Scenarios.check(false, "not woken");
            } catch (WakeupException expected) {
                Scenarios.check(one.listTopics().containsKey(topic), "list");
            }
        }
    }

    static void admin(String topic) throws Exception {
        Scenarios.create(topic, 2);
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (Admin admin = Admin.create(Scenarios.common())) {
            admin.alterConsumerGroupOffsets(topic, Map.of(first, new OffsetAndMetadata(3, "note"),
                second, new OffsetAndMetadata(4))).all().get();
            Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
            Scenarios.check(offsets.get(first).metadata().equals("note"), offsets);
            Scenarios.check(offsets.get(second).offset() == 4, offsets);
            admin.deleteConsumerGroupOffsets(topic, Set.of(second)).all().get();
            Scenarios.check(admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get()
                .get(second) == null, "deleted");
            try (KafkaConsumer<String, String> one = Scenarios.consumer("group.id", topic)) {
                one.subscribe(List.of(topic));
                Scenarios.check(poll(List.of(one), 2), "not all");
                ConsumerGroupDescription found =
                    admin.describeConsumerGroups(List.of(topic)).all().get().get(topic);
                Scenarios.check(found.members().size() == 1 && found.coordinator() != null, found);
                Scenarios.check(new HashSet<>(found.members().iterator().next().assignment()
                    .topicPartitions()).equals(Set.of(first, second)), found);
                fails(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
                admin.removeMembersFromConsumerGroup(topic, new RemoveMembersFromConsumerGroupOptions())
                    .all().get();
            }
            Scenarios.check(admin.listGroups().all().get().stream()
                .anyMatch(one -> one.groupId().equals(topic)), "listed");
            admin.deleteConsumerGroups(List.of(topic)).all().get();
            fails(GroupIdNotFoundException.class, () -> admin.describeConsumerGroups(List.of(topic)).all().get());
        }
    }

    interface Act {
        void run() throws Exception;
    }

    static void fails(Class<? extends Exception> kind, Act act) throws Exception {
        try {
            act.run();
        } catch (ExecutionException error) {
            Scenarios.check(kind.isInstance(error.getCause()), error.getCause());
            return;
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }
}

// The Apache Java client's Admin: topics by id, the cluster, lists in settings, and what is not served.

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedByAuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

class Administration {
    static Map<String, Scenarios.Scenario> all() {
        Map<String, Scenarios.Scenario> found = new LinkedHashMap<>();
        found.put("admin-ids", Administration::ids);
        found.put("admin-cluster", Administration::cluster);
        found.put("admin-dry-runs", Administration::dryRuns);
        found.put("admin-refusals", Administration::refusals);
        found.put("admin-lists", Administration::lists);
        found.put("without-security", Administration::withoutSecurity);
        found.put("reassignments", Administration::reassignments);
        found.put("not-served", Administration::notServed);
        return found;
    }

    static void ids(String topic) throws Exception {
        try (Admin admin = Admin.create(Scenarios.common())) {
            CreateTopicsResult made = admin.createTopics(List.of(new NewTopic(topic, Optional.of(3), Optional.empty())));
            Uuid id = made.topicId(topic).get();
            Scenarios.check(made.numPartitions(topic).get() == 3, "partitions");
            Scenarios.check(made.replicationFactor(topic).get() == 1, "replicas");
            Scenarios.check(made.config(topic).get().get("cleanup.policy").value().equals("delete"), "settings");
            TopicDescription found = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id)))
                .allTopicIds().get().get(id);
            Scenarios.check(found.name().equals(topic) && found.topicId().equals(id), found);
            Scenarios.check(found.partitions().get(2).isr().size() == 1, found);
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            Groups.fails(UnknownTopicIdException.class,
                () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get());
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            Scenarios.check(!admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId()
                .equals(id), "an id comes again");
        }
    }

    static void cluster(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (Admin admin = Admin.create(Scenarios.common())) {
            DescribeClusterResult found = admin.describeCluster();
            Scenarios.check(found.clusterId().get().length() == 22, found.clusterId().get());
            Scenarios.check(found.controller().get() != null, "controller");
            int broker = found.nodes().get().iterator().next().id();
            Scenarios.check(admin.describeFeatures().featureMetadata().get().finalizedFeatures()
                .containsKey("transaction.version"), "features");
            admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new org.apache.kafka.clients.admin
                .ListConfigResourcesOptions()).all().get();
            TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, broker);
            Scenarios.check(admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
                .getCurrentReplicaLogDir() != null, "directory");
            admin.electLeaders(org.apache.kafka.common.ElectionType.PREFERRED,
                Set.of(new TopicPartition(topic, 0))).partitions().get();
        }
    }

    static void dryRuns(String topic) throws Exception {
        try (Admin admin = Admin.create(Scenarios.common())) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all().get();
            Groups.fails(UnknownTopicOrPartitionException.class,
                () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
            Scenarios.create(topic, 1);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3)),
                new CreatePartitionsOptions().validateOnly(true)).all().get();
            Scenarios.check(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().size() == 1, "it grew");
        }
    }

    static void refusals(String topic) throws Exception {
        Scenarios.create(topic, 2);
        try (Admin admin = Admin.create(Scenarios.common())) {
            Groups.fails(InvalidTopicException.class,
                () -> admin.createTopics(List.of(new NewTopic("no/name", 1, (short) 1))).all().get());
            Groups.fails(InvalidPartitionsException.class,
                () -> admin.createTopics(List.of(new NewTopic(topic + "-0", 0, (short) 1))).all().get());
            Groups.fails(InvalidReplicationFactorException.class,
                () -> admin.createTopics(List.of(new NewTopic(topic + "-3", 1, (short) 3))).all().get());
            Groups.fails(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get());
            Groups.fails(UnknownTopicOrPartitionException.class,
                () -> admin.deleteTopics(List.of("not-" + topic)).all().get());
        }
    }

    static void lists(String topic) throws Exception {
        Scenarios.create(topic, 1);
        ConfigResource where = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry compact = new ConfigEntry("cleanup.policy", "compact");
        ConfigEntry delete = new ConfigEntry("cleanup.policy", "delete");
        try (Admin admin = Admin.create(Scenarios.common())) {
            Scenarios.alter(admin, where, compact, AlterConfigOp.OpType.APPEND);
            Scenarios.check(Set.of(Scenarios.value(admin, where, "cleanup.policy").split(","))
                .equals(Set.of("compact", "delete")), "appended");
            Scenarios.alter(admin, where, delete, AlterConfigOp.OpType.SUBTRACT);
            Scenarios.check(Scenarios.value(admin, where, "cleanup.policy").equals("compact"), "subtracted");
        }
    }

    /** What is not served fails at once and says that it is not supported. */
    static void withoutSecurity(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (Admin admin = Admin.create(Scenarios.common())) {
            Groups.fails(SecurityDisabledException.class,
                () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
            Groups.fails(UnsupportedByAuthenticationException.class,
                () -> admin.createDelegationToken().delegationToken().get());
            Scenarios.check(admin.describeUserScramCredentials().all().get().isEmpty(), "a user with credentials");
        }
    }

    static void reassignments(String topic) throws Exception {
        Scenarios.create(topic, 1);
        try (Admin admin = Admin.create(Scenarios.common())) {
            Groups.fails(InvalidReplicaAssignmentException.class,
                () -> admin.alterPartitionReassignments(Map.of(new TopicPartition(topic, 0),
                    Optional.of(new NewPartitionReassignment(List.of(99))))).all().get());
            Scenarios.check(admin.listPartitionReassignments().reassignments().get().isEmpty(), "one goes on");
        }
    }

    static void notServed(String topic) throws Exception {
        try (Admin admin = Admin.create(Scenarios.common())) {
            for (Groups.Act act : List.<Groups.Act>of(
                () -> admin.describeMetadataQuorum().quorumInfo().get(),
                () -> admin.unregisterBroker(7).all().get())) {
                Groups.fails(UnsupportedVersionException.class, act);
            }
        } catch (ExecutionException error) {
            throw new AssertionError(error);
        }
    }
}

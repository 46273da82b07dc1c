// KafkaJS through named scenarios: node scenarios.js BOOTSTRAP NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Where it prints "restart me" it
// goes on when it reads a line: the broker is to be killed and started meanwhile. How it says who it is, if the broker
// wants to know, is in the file of properties that CLIENT_PROPERTIES names.

const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const kafkajs = require('kafkajs');
const { CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = kafkajs;

kafkajs.CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');

const SECONDS_MAX = 60;
const [bootstrap, ...wanted] = process.argv.slice(2);
const { secured, refusals } = require('./secured');

const common = {
  clientId: 'node', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, ...secured(),
};
const kafka = new Kafka(common);

const admin = async (work) => {
  const own = kafka.admin();
  await own.connect();
  try {
    return await work(own);
  } finally {
    await own.disconnect();
  }
};

const create = (topic, numPartitions) =>
  admin((own) => own.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions }] }));

const producing = async (work, options = {}) => {
  const own = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options });
  await own.connect();
  try {
    return await work(own);
  } finally {
    await own.disconnect();
  }
};

const values = (count) =>
  Array.from({ length: count }, (_, at) => ({ key: `k${at % 10}`, value: `v${at}` }));

const write = (topic, count, compression) =>
  producing((own) => own.send({ topic, compression, messages: values(count) }));

const read = async (topic, count, { groupId = randomUUID(), isolation = false } = {}) => {
  const own = kafka.consumer({ groupId, readUncommitted: !isolation });
  const found = [];
  await own.connect();
  await own.subscribe({ topics: [topic], fromBeginning: true });
  try {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${found.length} records of ${count}`)), SECONDS_MAX * 1000);
      own.run({
        eachMessage: async ({ message }) => {
          found.push(message);
          if (found.length === count) {
            clearTimeout(timer);
            resolve();
          }
        },
      }).catch(reject);
    });
  } finally {
    await own.disconnect();
  }
  return found;
};

const produceConsume = (codec) => async (topic) => {
  await create(topic, 3);
  await write(topic, 1000, codec);
  const found = await read(topic, 1000);
  assert.equal(new Set(found.map((one) => one.value.toString())).size, 1000);
};

const scenarios = {
  'produce-consume-none': produceConsume(CompressionTypes.None),
  'produce-consume-gzip': produceConsume(CompressionTypes.GZIP),
  'produce-consume-snappy': produceConsume(CompressionTypes.Snappy),
  'headers-tombstones': async (topic) => {
    await create(topic, 1);
    const first = { key: 'k', value: 'v', timestamp: '1700000000000', headers: { h: 'x' } };
    await producing((own) => own.send({ topic, messages: [first, { key: 'k', value: null }] }));
    const [one, two] = await read(topic, 2);
    assert.equal(one.timestamp, '1700000000000');
    assert.equal(one.headers.h.toString(), 'x');
    assert.equal(two.value, null);
  },
  'group-classic': async (topic) => {
    await create(topic, 4);
    await write(topic, 400);
    const seen = new Set();
    const joined = new Set();
    const members = [0, 1].map(() => kafka.consumer({ groupId: topic }));
    try {
      await new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`${seen.size} values, ${joined.size} members`)), SECONDS_MAX * 1000).unref();
        // KafkaJS leaves a group only where it is in: one that is still joining stays until its session ends.
        const look = () => seen.size === 400 && joined.size === 2 && resolve();
        for (const own of members) {
          own.on(own.events.GROUP_JOIN, () => {
            joined.add(own);
            look();
          });
          (async () => {
            await own.connect();
            await own.subscribe({ topics: [topic], fromBeginning: true });
            await own.run({
              eachMessage: async ({ message }) => {
                seen.add(message.value.toString());
                look();
              },
            });
          })().catch(reject);
        }
      });
    } finally {
      await Promise.all(members.map((own) => own.disconnect()));
    }
    const { groups } = await admin((own) => own.listGroups());
    assert(groups.some((one) => one.groupId === topic));
    await admin((own) => own.deleteGroups([topic]))
      .catch((error) => assert.fail(JSON.stringify(error.groups ?? error.message)));
  },
  'commit-and-resume': async (topic) => {
    await create(topic, 1);
    await write(topic, 100);
    const partitions = [{ partition: 0, offset: '40' }];
    await admin((own) => own.setOffsets({ groupId: topic, topic, partitions }));
    const found = await read(topic, 60, { groupId: topic });
    assert.equal(found[0].offset, '40');
  },
  'admin-topics': async (topic) => {
    await create(topic, 2);
    await admin(async (own) => {
      assert.equal(await own.createTopics({ topics: [{ topic, numPartitions: 2 }] }), false);
      await own.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
      const { topics } = await own.fetchTopicMetadata({ topics: [topic] });
      assert.equal(topics[0].partitions.length, 5);
      assert.equal((await own.describeCluster()).brokers.length, 1);
      await own.deleteTopics({ topics: [topic] });
      assert(!(await own.listTopics()).includes(topic));
    });
  },
  'admin-configs': async (topic) => {
    await create(topic, 1);
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
    await admin(async (own) => {
      const configEntries = [{ name: 'retention.ms', value: '123456' }];
      await own.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
      const { resources } = await own.describeConfigs({ resources: [resource] });
      const entry = resources[0].configEntries.find((one) => one.configName === 'retention.ms');
      assert.equal(entry.configValue, '123456');
    });
  },
  'admin-records': async (topic) => {
    await create(topic, 1);
    await write(topic, 100);
    await admin(async (own) => {
      await own.fetchTopicOffsets(topic); // KafkaJS deletes only where it knows the leaders
      await own.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '30' }] });
      const [ends] = await own.fetchTopicOffsets(topic);
      assert.equal(ends.low, '30');
      assert.equal(ends.high, '100');
    });
    assert.equal((await read(topic, 70))[0].offset, '30');
  },
  transactions: async (topic) => {
    await create(topic, 2);
    await producing(
      async (own) => {
        for (let turn = 0; turn < 10; turn += 1) {
          const transaction = await own.transaction();
          const messages = Array.from({ length: 10 }, (_, at) => ({ value: `${turn}-${at}` }));
          await transaction.send({ topic, messages });
          await (turn % 2 ? transaction.abort() : transaction.commit());
        }
      },
      { transactionalId: topic, maxInFlightRequests: 1, idempotent: true });
    const found = await read(topic, 50, { isolation: true });
    assert(found.every((one) => Number(one.value.toString()[0]) % 2 === 0));
    await read(topic, 100);
  },
};
Object.assign(scenarios, refusals(Kafka, common));
Object.assign(scenarios, require('./more')({ admin, assert, create, kafka, producing, read, write }));

(async () => {
  let failed = 0;
  for (const name of wanted) {
    try {
      await scenarios[name](`node-${name}-${randomUUID().slice(0, 8)}`);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`failed ${name}: ${error.message}`);
      console.error(error);
    }
  }
  process.exit(failed ? 1 : 0);
})();

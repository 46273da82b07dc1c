// More of KafkaJS: batches, groups, copies in transactions, places, refusals, a killed broker.

const { randomUUID } = require('node:crypto');
const readline = require('node:readline');

const SECONDS_MAX = 60;
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const askForRestart = async () => {
  console.log('restart me');
  await lines.next();
};

const refused = async (assert, type, promise) => {
  const error = await promise.then(() => null, (given) => given);
  assert(error, `not refused: ${type}`);
  assert(JSON.stringify([error.type, error.errors, error.message]).includes(type), String(error));
};

module.exports = ({ admin, assert, create, kafka, producing, read, write }) => {
  // Runs a consumer until `done` says so; `work` begins it.
  const until = async (own, work, holds) => {
    await work(own);
    const end = Date.now() + SECONDS_MAX * 1000;
    while (!holds()) {
      assert(Date.now() < end, 'not in time');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };

  return {
    'each-batch': async (topic) => {
      await create(topic, 2);
      await write(topic, 500);
      const own = kafka.consumer({ groupId: topic });
      const seen = new Set();
      await own.connect();
      await own.subscribe({ topic, fromBeginning: true });
      try {
        await until(own, () => own.run({
          eachBatchAutoResolve: false,
          eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }) => {
            assert.equal(batch.highWatermark > 0, true);
            for (const message of batch.messages) {
              seen.add(message.value.toString());
              resolveOffset(message.offset);
            }
            await heartbeat();
            await commitOffsetsIfNecessary();
          },
        }), () => seen.size === 500);
      } finally {
        await own.disconnect();
      }
      const [{ partitions }] = await admin((one) => one.fetchOffsets({ groupId: topic, topics: [topic] }));
      assert.equal(partitions.reduce((sum, one) => sum + Number(one.offset), 0), 500);
    },
    'group-regex': async (topic) => {
      await create(`${topic}-a`, 1);
      await create(`${topic}-b`, 1);
      await write(`${topic}-a`, 10);
      await write(`${topic}-b`, 10);
      const own = kafka.consumer({ groupId: topic });
      const seen = new Set();
      await own.connect();
      await own.subscribe({ topics: [new RegExp(`^${topic}-[ab]$`)], fromBeginning: true });
      try {
        await until(own, () => own.run({
          eachMessage: async ({ topic: name, message }) => seen.add(`${name} ${message.value}`),
        }), () => seen.size === 20);
      } finally {
        await own.disconnect();
      }
    },
    'seek-and-pause': async (topic) => {
      await create(topic, 1);
      await write(topic, 100);
      const own = kafka.consumer({ groupId: topic });
      const seen = [];
      await own.connect();
      await own.subscribe({ topic, fromBeginning: true });
      try {
        await until(own, () => own.run({
          eachMessage: async ({ message }) => seen.push(message.offset),
        }), () => seen.length === 100);
        await until(own, async () => own.seek({ topic, partition: 0, offset: '90' }),
          () => seen.length === 110);
        assert.deepEqual(seen.slice(100), Array.from({ length: 10 }, (_, at) => `${90 + at}`));
        own.pause([{ topic }]);
        await write(topic, 5);
        await new Promise((resolve) => setTimeout(resolve, 1000));
        assert.equal(seen.at(-1), '99');
        await until(own, async () => own.resume([{ topic }]), () => seen.at(-1) === '104');
      } finally {
        await own.disconnect();
      }
    },
    'exactly-once-copy': async (topic) => {
      const target = `${topic}-copy`;
      await create(topic, 1);
      await create(target, 1);
      await write(topic, 200);
      const options = { transactionalId: topic, maxInFlightRequests: 1, idempotent: true };
      await producing(async (own) => {
        for (const how of ['abort', 'commit']) {
          const transaction = await own.transaction();
          const messages = (await read(topic, 200)).map(({ value }) => ({ value: `${how} ${value}` }));
          await transaction.send({ topic: target, messages });
          const partitions = [{ partition: 0, offset: '200' }];
          await transaction.sendOffsets({ consumerGroupId: topic, topics: [{ topic, partitions }] });
          await transaction[how]();
          const [found] = await admin((one) => one.fetchOffsets({ groupId: topic, topics: [topic] }));
          assert.equal(found.partitions[0].offset, how === 'commit' ? '200' : '-1');
        }
      }, options);
      const found = await read(target, 200, { isolation: true });
      const copied = new Set(found.map((one) => one.value.toString()));
      assert.equal(copied.size, 200);
      assert([...copied].every((one) => one.startsWith('commit ')), 'what was aborted is read');
    },
    'admin-groups': async (topic) => {
      await create(topic, 1);
      await write(topic, 50);
      await admin(async (own) => {
        await own.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '20' }] });
        await own.resetOffsets({ groupId: topic, topic, earliest: true });
        const [reset] = await own.fetchOffsets({ groupId: topic, topics: [topic] });
        assert.equal(reset.partitions[0].offset, '-2'); // KafkaJS commits the word for the earliest
        const { groups } = await own.describeGroups([topic]);
        assert.equal(groups[0].state, 'Empty');
        const [{ offset }] = await own.fetchTopicOffsetsByTimestamp(topic, 0);
        assert.equal(offset, '0');
        const [gone] = await own.deleteGroups([topic]);
        assert.equal(gone.errorCode, 0);
      });
    },
    refusals: async (topic) => {
      await create(topic, 1);
      const configEntries = [{ name: 'max.message.bytes', value: '1000' }];
      const resources = [{ type: 2, name: topic, configEntries }];
      await admin(async (own) => {
        await own.alterConfigs({ validateOnly: false, resources });
        await refused(assert, 'INVALID_TOPIC_EXCEPTION', own.createTopics({ topics: [{ topic: 'no/name' }] }));
        await refused(assert, 'INVALID_REPLICATION_FACTOR',
          own.createTopics({ topics: [{ topic: `${topic}-3`, replicationFactor: 3 }] }));
        await refused(assert, 'INVALID_PARTITIONS',
          own.createPartitions({ topicPartitions: [{ topic, count: 1 }] }));
      });
      await producing((own) => refused(assert, 'MESSAGE_TOO_LARGE',
        own.send({ topic, messages: [{ value: 'x'.repeat(2000) }] })), { retry: { retries: 0 } });
    },
    restart: async (topic) => {
      await create(topic, 1);
      const own = kafka.consumer({ groupId: topic });
      const seen = [];
      await own.connect();
      await own.subscribe({ topic, fromBeginning: true });
      const options = { idempotent: true, maxInFlightRequests: 1, retry: { retries: 15 } };
      try {
        await producing(async (writer) => {
          await own.run({ eachMessage: async ({ message }) => seen.push(message.value.toString()) });
          for (let at = 0; at < 20; at += 1) {
            const messages = Array.from({ length: 50 }, (_, one) => ({ value: `v${at * 50 + one}` }));
            const sent = writer.send({ topic, messages });
            if (at === 10) await askForRestart();
            await sent;
          }
        }, options);
        await until(own, async () => {}, () => new Set(seen).size === 1000);
        const order = [...new Set(seen)].map((one) => Number(one.slice(1)));
        assert(order.every((one, at) => one === at), 'not in order');
      } finally {
        await own.disconnect();
      }
      const groupId = randomUUID();
      const all = await read(topic, 1000, { groupId });
      assert.equal(new Set(all.map((one) => one.value.toString())).size, 1000);
    },
  };
};

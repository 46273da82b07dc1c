// Publishing: confirms, returns, bodies and properties.

const assert = require('node:assert');
const { Heard, arrived, declared, holds, publish, unused } = require('./kit');

const CONFIRMED = 500;

const confirms = async (connection) => {
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue(unused());
  let acknowledged = 0;
  for (let number = 0; number < CONFIRMED; number += 1) {
    channel.sendToQueue(queue, Buffer.from(`${number}`), { persistent: true }, (nacked) => {
      if (!nacked) acknowledged += 1;
    });
  }
  await channel.waitForConfirms();
  assert.equal(acknowledged, CONFIRMED);
  assert.equal((await channel.deleteQueue(queue)).messageCount, CONFIRMED);
};

const returns = async (connection) => {
  const channel = await connection.createConfirmChannel();
  const heard = new Heard();
  channel.on('return', ({ content, fields }) =>
    heard.push([fields.replyCode, fields.replyText, fields.exchange, fields.routingKey, `${content}`].join(' ')));
  channel.publish('amq.direct', 'nobody', Buffer.from('back'), { mandatory: true }, (nacked) =>
    heard.push(nacked ? 'nack' : 'ack'));
  assert.equal(await heard.next(), '312 NO_ROUTE amq.direct nobody back');
  assert.equal(await heard.next(), 'ack');
};

const bodies = async (_, channel) => {
  const queue = await declared(channel);
  for (const size of [0, 1, 131_063, 131_064, 131_065, 262_128, 1_000_000]) {
    const body = Buffer.from(Uint8Array.from({ length: size }, (__, at) => at % 251));
    channel.sendToQueue(queue, body);
    const { content } = await arrived(channel, queue);
    assert(content.equals(body), `${size} bytes came otherwise`);
  }
};

const properties = async (_, channel) => {
  const headers = {
    text: 'größe', bytes: Buffer.from([0xff, 0]), true: true, nothing: null, byte: -7, short: -700, int: 70_000,
    long: -(2 ** 40), double: 0.1, decimal: { '!': 'decimal', value: { places: 2, digits: 314 } },
    time: { '!': 'timestamp', value: 1_700_000_000 }, list: [1, 'two', { three: 3 }],
    table: { deep: { deeper: 'x' } },
  };
  const sent = {
    headers, contentType: 'text/plain', contentEncoding: 'utf-8', deliveryMode: 2, priority: 3, correlationId: 'c',
    replyTo: 'r', expiration: '60000', messageId: 'm', timestamp: 1_700_000_000, type: 't', userId: 'guest', appId: 'a',
  };
  const queue = await declared(channel);
  channel.sendToQueue(queue, Buffer.from('body'), sent);
  const found = await arrived(channel, queue);
  assert.deepEqual(found.properties, { ...sent, clusterId: undefined });
};

const full = async (connection) => {
  const channel = await connection.createConfirmChannel();
  const queue = await declared(channel, { 'x-max-length': 1, 'x-overflow': 'reject-publish' });
  const heard = new Heard();
  for (const body of ['a', 'b']) {
    channel.sendToQueue(queue, Buffer.from(body), {}, (nacked) => heard.push(nacked ? 'nack' : 'ack'));
    assert.equal(await heard.next(), body === 'a' ? 'ack' : 'nack');
  }
  await holds(channel, queue, 'a');
};

module.exports = {
  'every-message-is-confirmed': confirms,
  'what-cannot-be-routed-comes-back-before-its-confirm': returns,
  'bodies-of-many-frames-come-back-whole': bodies,
  'properties-and-headers-come-back-as-they-were': properties,
  'a-full-queue-refuses-what-is-published': full,
};

// Queues: names, arguments, counts, expiry, order and length, and where their dead go.

const assert = require('node:assert');
const {
  arrived, connected, consume, declared, eventually, holds, opened, publish, ready, refused, sleep, unused,
} = require('./kit');

const named = async (connection) => {
  const owner = await connected();
  const { queue } = await (await owner.createChannel()).assertQueue('', { exclusive: true });
  assert(queue.startsWith('amq.gen-'), queue);
  const said = `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${queue}' in vhost '/'. It could be `
    + 'originally declared on another connection or the exclusive property value does not match that of the original '
    + 'declaration.';
  await refused(405, said, (await opened(connection)).checkQueue(queue));
  await owner.close();
  await refused(404, `NOT_FOUND - no queue '${queue}' in vhost '/'`, (await opened(connection)).checkQueue(queue));
};

const unequal = async (connection, channel) => {
  const queue = unused();
  const declare = (on, durable, messageTtl) => on.assertQueue(queue, { durable, messageTtl, autoDelete: true });
  const inequivalent = (name, received, current) =>
    `PRECONDITION_FAILED - inequivalent arg '${name}' for queue '${queue}' in vhost '/': received '${received}' but `
    + `current is '${current}'`;
  await declare(channel, false, 1000);
  await refused(406, inequivalent('durable', true, false), declare(await opened(connection), true, 1000));
  await refused(406, inequivalent('x-message-ttl', 2000, 1000), declare(await opened(connection), false, 2000));
  await channel.deleteQueue(queue);
};

const counts = async (connection, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, '0', '1', '2');
  await eventually('three messages', async () => (await ready(channel, queue)) === 3);
  assert.equal((await channel.purgeQueue(queue)).messageCount, 3);
  publish(channel, queue, '3', '4');
  const got = await consume(await connection.createChannel(), queue);
  await got.next();
  await got.next();
  assert.equal((await channel.checkQueue(queue)).consumerCount, 1);
  const said = `PRECONDITION_FAILED - queue '${queue}' in vhost '/' in use`;
  await refused(406, said, (await opened(connection)).deleteQueue(queue, { ifUnused: true }));
  // What a consumer holds is not counted.
  assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
  assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
  const second = await declared(channel);
  publish(channel, second, '5');
  await eventually('a message', async () => (await ready(channel, second)) === 1);
  assert.equal((await channel.deleteQueue(second)).messageCount, 1);
};

const expiry = async (connection, channel) => {
  const brief = await declared(channel, { 'x-message-ttl': 100 });
  publish(channel, brief, 'brief');
  await eventually("the message's end by its queue", async () => (await ready(channel, brief)) === 0);
  const queue = await declared(channel);
  channel.sendToQueue(queue, Buffer.from('brief'), { expiration: 100 });
  publish(channel, queue, 'stays');
  await sleep(300);
  await holds(channel, queue, 'stays');
  const gone = unused();
  await channel.assertQueue(gone, { durable: false, expires: 200 });
  await sleep(1000);
  await refused(404, `NOT_FOUND - no queue '${gone}' in vhost '/'`, (await opened(connection)).checkQueue(gone));
};

const priorities = async (_, channel) => {
  const queue = await declared(channel, { 'x-max-priority': 5 });
  for (const priority of [0, 3, 9, 3, 5, 1]) channel.sendToQueue(queue, Buffer.from(`${priority}`), { priority });
  publish(channel, queue, 'none');
  // Above the highest counts as the highest, none as the lowest.
  await holds(channel, queue, '9', '5', '3', '3', '1', '0', 'none');
};

const bounded = async (_, channel) => {
  const queue = await declared(channel, { 'x-max-length': 2 });
  publish(channel, queue, '0', '1', '2');
  await holds(channel, queue, '1', '2');
};

const rejected = async (_, channel) => {
  const dead = await declared(channel);
  const queue = await declared(channel, { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead });
  publish(channel, queue, 'poison');
  channel.reject(await channel.get(queue), false);
  const { headers } = (await arrived(channel, dead)).properties;
  const [{ time, ...death }] = headers['x-death'];
  assert.equal(time['!'], 'timestamp');
  assert.deepEqual(death, { reason: 'rejected', queue, exchange: '', count: 1, 'routing-keys': [queue] });
  for (const name of ['x-first-death-', 'x-last-death-']) {
    assert.deepEqual(['reason', 'queue', 'exchange'].map((what) => headers[name + what]), ['rejected', queue, '']);
  }
};

const expired = async (_, channel) => {
  // It dies in a circle: what waited comes back to where it was first.
  const [first, second] = [unused(), unused()];
  for (const [queue, next] of [[first, second], [second, first]]) {
    const options = { exclusive: true, durable: false, deadLetterExchange: '', deadLetterRoutingKey: next };
    await channel.assertQueue(queue, options);
  }
  channel.sendToQueue(first, Buffer.from('brief'), { expiration: '100' });
  await eventually('its first death', async () => (await ready(channel, second)) === 1);
  const once = await channel.get(second);
  assert.equal(once.properties.expiration, undefined);
  const [death] = once.properties.headers['x-death'];
  assert.deepEqual([death.reason, death['original-expiration']], ['expired', '100']);
  channel.reject(once, false);
  const { headers } = (await arrived(channel, first)).properties;
  assert.deepEqual(headers['x-death'].map(({ reason }) => reason), ['rejected', 'expired']);
  assert.equal(headers['x-first-death-reason'], 'expired');
  assert.equal(headers['x-last-death-reason'], 'rejected');
};

module.exports = {
  'a-queue-named-by-the-server-goes-with-its-connection': named,
  'unequal-arguments-are-refused': unequal,
  'purging-and-deleting-tell-how-many-there-were': counts,
  'messages-and-queues-expire': expiry,
  'urgent-messages-go-first': priorities,
  'a-bounded-queue-drops-its-oldest': bounded,
  'a-rejected-message-dies-with-its-history': rejected,
  'an-expired-message-dies-with-its-history': expired,
};

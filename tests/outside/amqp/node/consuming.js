// Consuming: prefetch, acknowledgements, what comes back, and consumers that are cancelled.

const assert = require('node:assert');
const { arrived, closes, consume, declared, holds, opened, publish, refused, text } = require('./kit');

const prefetch = async (connection, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, '0', '1', '2', '3', '4');
  await channel.prefetch(2);
  const got = await consume(channel, queue);
  await got.next();
  const second = await got.next();
  await got.silent();
  channel.ack(second);
  assert.equal(text(await got.next()), '2');
  await got.silent();
  // Of the whole channel: a second consumer shares the bound.
  const bounded = await connection.createChannel();
  await bounded.prefetch(3, true);
  const [one, other] = [await declared(bounded), await declared(bounded)];
  publish(bounded, one, 'a', 'b');
  publish(bounded, other, 'c', 'd');
  const first = await consume(bounded, one);
  await first.next();
  await first.next();
  const more = await consume(bounded, other);
  assert.equal(text(await more.next()), 'c');
  await more.silent();
};

const multiple = async (connection, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, '0', '1', '2', '3');
  const got = await consume(channel, queue);
  await got.next();
  await got.next();
  channel.ack(await got.next(), true);
  await got.next();
  await channel.close();
  await holds(await connection.createChannel(), queue, '3');
};

const requeue = async (_, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, '0', '1', '2', '3');
  const got = [];
  for (let at = 0; at < 3; at += 1) got.push(await channel.get(queue));
  assert.deepEqual(got.map(({ fields }) => fields.redelivered), [false, false, false]);
  channel.reject(got[2], false);
  channel.nack(got[1], true, true);
  for (const body of ['0', '1', '3']) {
    const found = await arrived(channel, queue);
    assert.equal(text(found), body);
    assert.equal(found.fields.redelivered, body !== '3');
  }
  assert.equal(await channel.get(queue), false);
};

const closed = async (connection, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, 'held');
  const dying = await connection.createChannel();
  await (await consume(dying, queue)).next();
  await dying.close();
  assert.equal((await arrived(channel, queue)).fields.redelivered, true);
  publish(channel, queue, 'recovered');
  await channel.get(queue);
  await channel.recover();
  assert.equal((await arrived(channel, queue)).fields.redelivered, true);
};

const cancelled = async (connection, channel) => {
  const queue = await declared(channel);
  const got = await consume(channel, queue);
  await (await connection.createChannel()).deleteQueue(queue);
  assert.equal(await got.next(), null);
  // The channel lives on.
  await declared(channel);
};

const exclusive = async (connection, channel) => {
  const queue = await declared(channel);
  await consume(channel, queue, { exclusive: true });
  const said = `ACCESS_REFUSED - queue '${queue}' in vhost '/' in exclusive use`;
  await refused(403, said, consume(await opened(connection), queue));
};

const unknownTag = async (connection, channel) => {
  const queue = await declared(channel);
  publish(channel, queue, 'once');
  const found = await channel.get(queue);
  await closes(406, 'PRECONDITION_FAILED - unknown delivery tag 1', channel, () => {
    channel.ack(found);
    channel.ack(found);
  });
};

const left = async (_, channel) => {
  const queue = await declared(channel);
  assert.equal(await channel.get(queue), false);
  publish(channel, queue, '0', '1', '2');
  for (let number = 0; number < 3; number += 1) {
    const { fields } = await channel.get(queue, { noAck: true });
    assert.deepEqual(
      [fields.messageCount, fields.exchange, fields.routingKey, fields.deliveryTag],
      [2 - number, '', queue, number + 1],
    );
  }
};

const call = async (connection, client) => {
  const server = await connection.createChannel();
  const calls = await declared(server);
  const answers = await consume(client, 'amq.rabbitmq.reply-to', { noAck: true });
  const asked = { replyTo: 'amq.rabbitmq.reply-to', correlationId: '7' };
  client.sendToQueue(calls, Buffer.from('ping'), asked);
  const { replyTo, correlationId } = (await arrived(server, calls)).properties;
  assert(replyTo.startsWith('amq.rabbitmq.reply-to.'), replyTo);
  await server.checkQueue(replyTo);
  server.sendToQueue(replyTo, Buffer.from('pong'), { correlationId });
  const answer = await answers.next();
  assert.equal(text(answer), 'pong');
  assert.equal(answer.properties.correlationId, '7');
  const without = await opened(connection);
  await closes(406, 'PRECONDITION_FAILED - fast reply consumer does not exist', without, () =>
    without.sendToQueue(calls, Buffer.from('nobody listens'), asked));
};

module.exports = {
  'prefetch-bounds-what-is-outstanding': prefetch,
  'several-are-acknowledged-at-once': multiple,
  'what-is-handed-back-comes-again-in-its-place': requeue,
  'what-a-closed-channel-held-comes-again': closed,
  'a-deleted-queue-cancels-its-consumer': cancelled,
  'an-exclusive-consumer-keeps-others-away': exclusive,
  'an-unknown-delivery-tag-closes-the-channel': unknownTag,
  'get-tells-what-is-left': left,
  'a-procedure-is-called-over-direct-reply-to': call,
};

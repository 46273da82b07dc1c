// Connecting, being refused, and what becomes of a connection.

const assert = require('node:assert');
const {
  Heard, amqp, closes, connected, declared, opened, publish, refused, sleep, text, unused, url,
} = require('./kit');

const serverProperties = ({ connection }) => {
  const { capabilities, product, version } = connection.serverProperties;
  assert.deepEqual([product, version], ['RabbitMQ', '4.0.5']);
  for (const name of [
    'publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify', 'connection.blocked',
    'consumer_priorities', 'authentication_failure_close', 'per_consumer_qos', 'direct_reply_to',
  ]) {
    assert.equal(capabilities[name], true, name);
  }
  assert.equal(connection.frameMax, 131_072);
  assert.equal(connection.channelMax, 2047);
  assert.equal(connection.heartbeat, 60);
};

const wrongPassword = async () => {
  const error = await connected({}, url.replace('guest:guest', 'guest:wrong')).catch((why) => why);
  assert(error.message.includes('403 (ACCESS-REFUSED)'), error.message);
  assert(error.message.includes('ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN'), error.message);
};

const unknownVirtualHost = async () => {
  const error = await connected({}, url.replace(/[^/]*$/, 'nowhere')).catch((why) => why);
  // The client says no more of it.
  assert.equal(error.message, 'Expected ConnectionOpenOk; got <ConnectionClose channel:0>');
};

const heartbeats = async () => {
  const connection = await connected({}, `${url}?heartbeat=1`);
  assert.equal(connection.connection.heartbeat, 1);
  await sleep(4000);
  await declared(await connection.createChannel());
  await connection.close();
};

// The client's own recovery: it connects again, and has `setup` declare and consume anew.
const cut = async (_, publishing) => {
  const queue = unused();
  const got = new Heard();
  const models = [];
  const setup = async (model) => {
    models.push(model);
    const channel = await model.createChannel();
    await channel.assertQueue(queue, { durable: false, expires: 60_000 });
    await channel.consume(queue, (message) => got.push(message));
  };
  const connection = await amqp.connect(url, { recovery: { initialDelay: 50, setup } });
  connection.on('error', () => {});
  publish(publishing, queue, 'held');
  assert.equal((await got.next()).fields.redelivered, false);
  models[0].connection.stream.destroy(new Error('cut'));
  const again = await got.next();
  assert.equal(text(again), 'held');
  assert.equal(again.fields.redelivered, true);
  await publishing.deleteQueue(queue);
  await connection.close();
};

const refusal = async (connection) => {
  const still = await opened(connection);
  await refused(404, "NOT_FOUND - no queue 'none' in vhost '/'", (await opened(connection)).checkQueue('none'));
  await refused(404, "NOT_FOUND - no exchange 'none' in vhost '/'", (await opened(connection)).checkExchange('none'));
  const third = await opened(connection);
  await closes(404, "NOT_FOUND - no exchange 'none' in vhost '/'", third, () =>
    third.publish('none', 'key', Buffer.from('lost')));
  const said = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'";
  await refused(403, said, (await opened(connection)).assertExchange('amq.mine', 'direct'));
  await declared(still);
};

module.exports = {
  'the-server-says-what-it-can': serverProperties,
  'a-wrong-password-is-refused': wrongPassword,
  'an-unknown-virtual-host-is-refused': unknownVirtualHost,
  'heartbeats-keep-an-idle-connection': heartbeats,
  'a-cut-connection-is-made-again': cut,
  'a-refusal-closes-its-channel-alone': refusal,
};

// What the scenarios share: connections, messages, waiting and refusals.

const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const amqp = require('amqplib');

const url = process.argv[2];
const MOST_MS = 20_000;
const SILENCE_MS = 300;

// Ends are errors that somebody has to listen to; scenarios look at those they expect.
const connected = async (options = {}, at = url) => {
  const connection = await amqp.connect(at, options);
  connection.on('error', () => {});
  return connection;
};

const opened = async (connection) => {
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  return channel;
};

const unused = (kind = 'q') => `${kind}-${randomUUID()}`;

// A queue that goes with its connection; its name.
const declared = async (channel, args = {}) =>
  (await channel.assertQueue(unused(), { exclusive: true, durable: false, arguments: args })).queue;

const publish = (channel, queue, ...bodies) =>
  bodies.forEach((body) => channel.sendToQueue(queue, Buffer.from(body)));

const text = (message) => message.content.toString();

const within = (promise, what) =>
  Promise.race([promise, sleep(MOST_MS, null, { ref: false }).then(() => assert.fail(`never came: ${what}`))]);

const eventually = async (what, condition) => {
  const deadline = Date.now() + MOST_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert(Date.now() < deadline, `never came: ${what}`);
    await sleep(10);
  }
};

// What is put in by an event, and taken when it is there.
class Heard {
  constructor() {
    this.all = [];
    this.taken = 0;
  }

  push(one) {
    this.all.push(one);
  }

  async next() {
    await eventually('what is listened for', () => this.all.length > this.taken);
    this.taken += 1;
    return this.all[this.taken - 1];
  }

  async silent() {
    await sleep(SILENCE_MS);
    assert.equal(this.all.length, this.taken, 'more came than may');
  }
}

const consume = async (channel, queue, options) => {
  const got = new Heard();
  const { consumerTag } = await channel.consume(queue, (message) => got.push(message), options);
  return Object.assign(got, { consumerTag });
};

const arrived = (channel, queue) => eventually('a message', () => channel.get(queue, { noAck: true }));

// The queue holds these bodies and no more.
const holds = async (channel, queue, ...bodies) => {
  const found = [];
  for (const _ of bodies) found.push(text(await arrived(channel, queue)));
  assert.deepEqual(found, bodies);
  assert.equal(await channel.get(queue), false);
};

const ready = async (channel, queue) => (await channel.checkQueue(queue)).messageCount;

const isClosed = (error, code, said) => {
  assert.equal(error.code, code, error.message);
  assert(error.message.endsWith(`"${said}"`), error.message);
};

// A refusal with this code and text.
const refused = async (code, said, asked) => {
  const error = await within(asked.then(() => assert.fail('nothing was refused'), (why) => why), 'a refusal');
  isClosed(error, code, said);
};

// The end of a channel or connection, which what `last` sends leads to.
const closes = async (code, said, ending, last) => {
  const ended = once(ending, 'error', { signal: AbortSignal.timeout(MOST_MS) }).catch((error) => [error]);
  last();
  const [error] = await ended;
  isClosed(error, code, said);
};

module.exports = {
  Heard, amqp, arrived, closes, connected, consume, declared, eventually, holds, opened, publish, ready,
  refused, sleep, text, unused, url,
};

// Exchanges: what is routed where.

const { declared, holds, unused } = require('./kit');

const exchange = async (channel, kind, options = {}) =>
  (await channel.assertExchange(unused('e'), kind, { durable: false, autoDelete: true, ...options })).exchange;

// Publish a message for each key, which it has as its body.
const route = (channel, name, ...keys) => keys.forEach((key) => channel.publish(name, key, Buffer.from(key)));

const topic = async (_, channel) => {
  const name = await exchange(channel, 'topic');
  const [orange, second] = [await declared(channel), await declared(channel)];
  await channel.bindQueue(orange, name, '*.orange.*');
  await channel.bindQueue(second, name, '*.*.rabbit');
  await channel.bindQueue(second, name, 'lazy.#');
  route(channel, name, 'quick.orange.rabbit', 'lazy.orange.elephant', 'quick.orange.fox', 'lazy.brown.fox',
    'lazy.pink.rabbit', 'quick.brown.fox', 'orange', 'lazy.orange.male.rabbit', 'lazy');
  await holds(channel, orange, 'quick.orange.rabbit', 'lazy.orange.elephant', 'quick.orange.fox');
  await holds(channel, second, 'quick.orange.rabbit', 'lazy.orange.elephant', 'lazy.brown.fox', 'lazy.pink.rabbit',
    'lazy.orange.male.rabbit', 'lazy');
  await channel.unbindQueue(second, name, 'lazy.#');
  route(channel, name, 'lazy.brown.fox', 'slow.pink.rabbit');
  await holds(channel, second, 'slow.pink.rabbit');
};

const headers = async (_, channel) => {
  const name = await exchange(channel, 'headers');
  const queues = {};
  for (const match of ['all', 'any']) {
    queues[match] = await declared(channel);
    await channel.bindQueue(queues[match], name, '', { 'x-match': match, format: 'pdf', pages: 2 });
  }
  [
    { format: 'pdf', pages: 2, more: 'x' },
    { format: 'pdf', pages: 3 },
    // A number is a number, however many bytes it has.
    { format: 'zip', pages: { '!': 'int64', value: 2 } },
    { format: 'zip' },
  ].forEach((given, at) => channel.publish(name, '', Buffer.from(`${at}`), { headers: given }));
  await holds(channel, queues.all, '0');
  await holds(channel, queues.any, '0', '1', '2');
};

const bound = async (_, channel) => {
  const [source, destination] = [await exchange(channel, 'topic'), await exchange(channel, 'fanout')];
  const queue = await declared(channel);
  await channel.bindExchange(destination, source, 'orders.*');
  await channel.bindQueue(queue, destination, '');
  // Once, over however many ways it comes.
  await channel.bindQueue(queue, source, 'orders.paid');
  route(channel, source, 'orders.paid', 'letters.sent', 'orders.sent');
  await holds(channel, queue, 'orders.paid', 'orders.sent');
  await channel.unbindExchange(destination, source, 'orders.*');
  route(channel, source, 'orders.sent', 'orders.paid');
  await holds(channel, queue, 'orders.paid');
};

const alternate = async (_, channel) => {
  const rest = await exchange(channel, 'fanout');
  const name = await exchange(channel, 'direct', { alternateExchange: rest });
  const [wanted, unwanted] = [await declared(channel), await declared(channel)];
  await channel.bindQueue(wanted, name, 'wanted');
  await channel.bindQueue(unwanted, rest, '');
  route(channel, name, 'wanted', 'else');
  await holds(channel, wanted, 'wanted');
  await holds(channel, unwanted, 'else');
};

module.exports = {
  'a-topic-exchange-matches-words': topic,
  'a-headers-exchange-matches-all-or-any': headers,
  'exchanges-are-bound-to-exchanges': bound,
  'an-alternate-exchange-takes-what-nobody-wants': alternate,
};

// Scenarios of ali-ons, a client in JavaScript: node scenarios.js ADDRESS SCENARIO TOPIC. Status 0: it holds.
const { Producer, Consumer, Message } = require('ali-ons');

const [ nameSrv, scenario, topic ] = process.argv.slice(2);
const quiet = { info() {}, warn() {}, debug() {}, error() {} };
const options = { nameSrv, httpclient: require('urllib'), logger: quiet };
const sleep = ms => new Promise(done => setTimeout(done, ms));
const group = name => `CG_${name}_${topic}`;

function check(holds, claim) {
  if (!holds) throw new Error(claim);
}

async function newProducer(more = {}) {
  const producer = new Producer({ ...options, producerGroup: 'PG', ...more });
  await producer.ready();
  return producer;
}

async function send(producer, tag, body, more = () => {}) {
  const message = new Message(topic, tag, body);
  message.keys = [ `key of ${body.slice(0, 10)}` ];
  more(message);
  const result = await producer.send(message);
  check(result.sendStatus === 'SEND_OK', `send ${body.slice(0, 10)}`);
  return result;
}

// A consumer with the messages that it has got.
async function consumes(name, expression = '*', more = {}, handle = () => {}) {
  const got = [];
  const consumer = new Consumer({
    ...options, consumerGroup: group(name), consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', instanceName: name, ...more,
  });
  consumer.on('error', () => {});
  consumer.subscribe(more.topic || topic, expression, async message => {
    got.push({ body: message.body.toString(), message, at: Date.now(), times: message.reconsumeTimes });
    return handle(message);
  });
  await consumer.ready();
  return { consumer, got };
}

async function wait(got, count) {
  for (let n = 0; n < 1000 && got.length < count; n++) await sleep(100);
  await sleep(1500);
  check(got.length === count, `${got.length} of ${count}: ${got.map(each => each.body.slice(0, 10))}`);
  return got.map(each => each.body).sort();
}

const scenarios = {
  async 'sync-send'() {
    const producer = await newProducer();
    const large = 'x'.repeat(100000);
    for (const body of [ 'first', 'größe', large ]) {
      const result = await send(producer, 'A', body);
      check(result.msgId && result.queueOffset >= 0, 'an id');
    }
    const { got } = await consumes('sync');
    check((await wait(got, 3)).join() === [ 'first', 'größe', large ].sort().join(), 'bodies');
  },

  async push() {
    const producer = await newProducer();
    for (let n = 0; n < 10; n++) await send(producer, n % 2 ? 'A' : 'B', `body ${n}`, message => { message.properties.colour = 'red'; });
    const { got } = await consumes('push');
    await wait(got, 10);
    const { message } = got.find(each => each.body === 'body 3');
    check(message.tags === 'A' && message.keys === 'key of body 3' && message.properties.colour === 'red', 'properties');
    await send(producer, 'A', 'later');
    await wait(got, 11);
    check(got[10].body === 'later', 'by the parked pull');
  },

  async tags() {
    const producer = await newProducer();
    for (const tag of [ 'A', 'B', 'C', 'AaAa', 'BBBB' ]) await send(producer, tag, tag);
    const { got } = await consumes('ab', 'A || B');
    check((await wait(got, 2)).join() === 'A,B', 'A or B');
    const same = await consumes('hash', 'AaAa');
    check((await wait(same.got, 1)).join() === 'AaAa', 'of two tags with one hash');
  },

  async sql92() {
    const producer = await newProducer();
    for (let n = 0; n < 10; n++) await send(producer, 'A', `${n}`, message => { message.properties.n = `${n}`; });
    await send(producer, 'A', 'none');
    const { got } = await consumes('sql', { expressionType: 'SQL92', subString: "n BETWEEN 3 AND 4 OR n IS NULL OR n IN ('9')" });
    check((await wait(got, 4)).join() === '3,4,9,none', 'got');
  },

  async 'shared-group'() {
    const producer = await newProducer();
    await send(producer, 'A', 'first');
    const one = await consumes('shared', '*', { instanceName: 'one' });
    const two = await consumes('shared', '*', { instanceName: 'two' });
    await sleep(25000); // the client rebalances every 10 s
    one.got.length = two.got.length = 0;
    for (let n = 0; n < 100; n++) await send(producer, 'A', `${n}`);
    for (let n = 0; n < 300 && one.got.length + two.got.length < 100; n++) await sleep(100);
    const queues = [ one, two ].map(each => new Set(each.got.map(some => some.message.queueId)));
    check(queues[0].size && queues[1].size, 'both have queues');
    for (const queue of queues[0]) check(!queues[1].has(queue), 'each queue has one member');
    check(new Set([ ...one.got, ...two.got ].map(each => each.body)).size === 100, 'each once');
  },

  async 'returning-group'() {
    const producer = await newProducer();
    for (let n = 0; n < 20; n++) await send(producer, 'A', `first${n}`);
    const first = await consumes('returns', '*', { persistent: true, instanceName: 'one' });
    await wait(first.got, 20);
    await sleep(6000); // its offsets are stored every 5 s
    await first.consumer.close();
    for (let n = 0; n < 20; n++) await send(producer, 'A', `away${n}`);
    const { got } = await consumes('returns', '*', { persistent: true, instanceName: 'two' });
    for (const body of await wait(got, 20)) check(body.startsWith('away'), body);
  },

  async broadcasting() {
    const producer = await newProducer();
    await send(producer, 'A', 'first');
    const members = [];
    for (const instanceName of [ 'one', 'two' ]) members.push(await consumes('broadcasting', '*', { isBroadcast: true, instanceName }));
    await sleep(5000);
    for (const { got } of members) got.length = 0;
    for (let n = 0; n < 20; n++) await send(producer, 'A', `${n}`);
    for (const { got } of members) check(new Set(await wait(got, 20)).size === 20, 'each to each');
  },

  async namespaces() {
    const producer = await newProducer();
    await send(producer, 'A', 'outside');
    const inside = await newProducer({ namespace: 'INST', instanceName: 'inside' });
    await send(inside, 'A', 'inside');
    const { got } = await consumes('namespaces', '*', { namespace: 'INST' });
    check((await wait(got, 1)).join() === 'inside', 'of the namespace');
    const plain = await consumes('plain', '*', { topic: `INST%${topic}` });
    check((await wait(plain.got, 1)).join() === 'inside', 'INST%topic');
  },

  async retries() {
    const producer = await newProducer();
    await send(producer, 'A', 'poison');
    const { got, consumer } = await consumes('retries', '*', { maxReconsumeTimes: 1 }, () => {
      throw new Error('poison'); // ACTION_RETRY is ignored for a message that was retried
    });
    await wait(got, 2);
    check(got[0].times === 0 && got[1].times === 1, 'attempts');
    await consumer.close();
    const letters = await consumes('letters', '*', { topic: `%DLQ%${group('retries')}` });
    check((await wait(letters.got, 1)).join() === 'poison', 'the dead letter');
    const { message } = letters.got[0];
    check(message.keys === 'key of poison' && message.retryTopic === topic && message.originMessageId, 'its key and topic');
  },

  async delays() {
    const producer = await newProducer();
    await send(producer, 'A', 'first');
    const { got } = await consumes('delays');
    await wait(got, 1);
    const began = Date.now();
    await send(producer, 'A', 'level', message => { message.delayTimeLevel = 2; });
    await send(producer, 'A', 'now');
    await wait(got, 3);
    check(got[1].body === 'now' && got[2].body === 'level', 'order');
    check(got[2].at - began >= 5000, 'early');
  },
};

scenarios[scenario]().then(() => {
  console.log('HOLDS', scenario);
  process.exit(0);
}, failure => {
  console.log('BROKEN', scenario, failure);
  process.exit(1);
});

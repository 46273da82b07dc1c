// A scenario of ali-ons, a client in JavaScript: node client.js ADDRESS. Status 0: it holds.
const { Producer, Consumer, Message } = require('ali-ons');

const topic = 'Orders';
const quiet = { info() {}, warn() {}, debug() {}, error() {} };
const options = { nameSrv: process.argv[2], httpclient: require('urllib'), logger: quiet };
const sleep = ms => new Promise(done => setTimeout(done, ms));

function check(holds, claim) {
  if (!holds) throw new Error(claim);
}

(async () => {
  const producer = new Producer({ ...options, producerGroup: 'PG' });
  await producer.ready();
  for (let n = 0; n < 10; n++) {
    const message = new Message(topic, n % 2 ? 'A' : 'B', `body ${n}`);
    message.keys = [ `key${n}` ];
    const result = await producer.send(message);
    check(result.sendStatus === 'SEND_OK', `send ${n}`);
  }
  const got = new Map();
  const consumer = new Consumer({
    ...options, consumerGroup: 'CG', consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.subscribe(topic, '*', async message => {
    check(!got.has(message.body.toString()), 'each once');
    got.set(message.body.toString(), message);
  });
  await consumer.ready();
  for (let n = 0; n < 600 && got.size < 10; n++) await sleep(100);
  check(got.size === 10, `all: ${got.size}`);
  const message = got.get('body 3');
  check(message.tags === 'A' && message.keys === 'key3', 'properties');
  await producer.send(new Message(topic, 'A', 'later'));
  for (let n = 0; n < 300 && got.size < 11; n++) await sleep(100);
  check(got.has('later'), 'by the parked pull');
  await consumer.close();
  await producer.close();
  console.log('HOLDS');
  process.exit(0);
})().catch(failure => {
  console.log('BROKEN', failure);
  process.exit(1);
});

// Who KafkaJS says that it is, and what it says where it is not believed.

const assert = require('node:assert');
const { readFileSync } = require('node:fs');

// Settings of `new Kafka`, from the file that CLIENT_PROPERTIES names, in librdkafka's words.
const secured = () => {
  const file = process.env.CLIENT_PROPERTIES;
  if (!file) return {};
  const given = Object.fromEntries(
    readFileSync(file, 'utf8').split('\n').filter(Boolean).map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1)];
    }));
  const text = (name) => (given[name] ? readFileSync(given[name], 'utf8') : undefined);
  const found = {};
  if (given['security.protocol'].endsWith('SSL')) {
    found.ssl = {
      ca: [text('ssl.ca.location')], cert: text('ssl.certificate.location'), key: text('ssl.key.location'),
    };
  }
  if (given['sasl.mechanism']) {
    found.sasl = {
      mechanism: given['sasl.mechanism'].toLowerCase(),
      username: given['sasl.username'],
      password: given['sasl.password'],
    };
  }
  return found;
};

const refusals = (Kafka, common) => {
  const refused = (words) => async () => {
    const own = new Kafka({ ...common, retry: { retries: 0 } }).admin();
    const error = await own.connect().then(() => null, (given) => given);
    await own.disconnect();
    assert(error, 'let in');
    const told = [error, error.cause].filter(Boolean).map((one) => `${one.name} ${one.message}`).join(' ');
    assert(words.test(told), told);
  };
  return {
    'wrong-password': refused(/KafkaJSSASLAuthenticationError/),
    'unknown-authority': refused(/KafkaJSConnectionError.*(certificate|CERT)/),
  };
};

module.exports = { secured, refusals };

// amqplib through named scenarios: node scenarios.js URL NAME...
// Prints "ok NAME" or "failed NAME: why" for each; the status is 1 if any failed. Each has a connection of its own.

const { connected } = require('./kit');

const all = {
  ...require('./connections'),
  ...require('./publishing'),
  ...require('./consuming'),
  ...require('./queues'),
  ...require('./exchanges'),
};

const main = async () => {
  let status = 0;
  for (const name of process.argv.slice(3)) {
    const connection = await connected();
    try {
      await all[name](connection, await connection.createChannel());
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`failed ${name}: ${error.message}`);
      console.error(error);
      status = 1;
    }
    await connection.close().catch(() => {});
  }
  process.exit(status);
};

main();

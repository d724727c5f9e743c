/** A server in a process of its own, with limits that the program's configuration does not let an operator change. */
const [compiled, home, limits] = process.argv.slice(2);
const { openStoa } = await import(`${compiled}/index.js`);
const { createApp, stopApp } = await import(`${compiled}/server/app.js`);
const { LogDestination } = await import(`${compiled}/server/telemetry/log-destination.js`);
const { createLogger } = await import(`${compiled}/server/telemetry/log.js`);
const { settleProcess } = await import(`${compiled}/server/process-settings.js`);

settleProcess();
const log = new LogDestination();
const logger = createLogger('info', log);
const stoa = await openStoa({
  ...JSON.parse(home),
  limits: JSON.parse(limits),
  onError: (error, about) => logger.error({ err: error }, about),
});
const app = createApp(stoa, { logger, log });
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.once('SIGTERM', async () => {
  await stopApp(app, stoa.limits.stopSecondsMax);
  await stoa.close();
});
console.log(
  JSON.stringify({ url, pid: process.pid, operator_token_file: null, operator_token: stoa.operatorToken }),
);

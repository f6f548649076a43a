// What a measurement leaves behind when it is told to stop: nothing.

/** On SIGINT and SIGTERM: says so, stops the server and the browser, ends with status 2. */
export function leaveCleanly(stop) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
      console.error(`${signal}: stopped before the end, nothing was measured`);
      process.on('uncaughtException', () => {}); // what was under way fails now
      await Promise.race([stop().catch(() => {}), new Promise((late) => { setTimeout(late, 10000); })]);
      process.exit(2);
    });
  }
}

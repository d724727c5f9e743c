/** A process of claiming workers, as a fleet has them: claim, work, complete, again. It may be killed at any moment. */
const [url, token, projectId, name, loops] = process.argv.slice(2);
const headersOf = (agent) => ({
  authorization: `Bearer ${token}`,
  'stoa-user': 'fleet',
  'stoa-agent': agent,
  'content-type': 'application/json',
});

async function post(agent, path, body) {
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: headersOf(agent),
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
}

async function work(holder) {
  for (;;) {
    try {
      const claim = await post(holder, `/v1/projects/${projectId}/tasks/claim`, {
        wait: 5,
        lease_seconds: 4,
      });
      if (claim.status !== 200) continue;
      const { task, lease } = claim.body;
      // What the server may lose is the answer, not the report: the same report again is no error.
      for (let attempt = 0; attempt < 100; attempt += 1) {
        const done = await post(holder, `/v1/tasks/${task.id}/complete`, {
          fence: lease.fence,
          output: holder,
        }).catch(() => undefined);
        if (done === undefined || done.status >= 500) {
          await new Promise((resolve) => setTimeout(resolve, 100));
          continue;
        }
        if (done.status === 200) process.stdout.write(`${task.id} ${lease.fence}\n`);
        break;
      }
    } catch {
      // The server is away; it comes back.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

for (let loop = 0; loop < Number(loops); loop += 1) void work(`${name}-${loop}`);

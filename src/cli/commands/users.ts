/** `stoa users …`: who has used this server, and their quotas. */
import { StoaError } from '../../errors.js';
import { encodeSegment } from '../../path-segment.js';
import type { UserAnswer } from '../../registry/schemas.js';
import { type Action, numberOption, present, textOption } from '../definition.js';
import type { Column } from '../output.js';

const columns: readonly Column<UserAnswer>[] = [
  ['USER', (user) => user.user],
  ['AGENTS', (user) => `${user.agents}/${user.agents_max}`],
  ['EMAIL', (user) => user.email || null],
  ['LAST_SEEN', (user) => user.last_seen_at],
  ['ID', (user) => user.user_id],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const query = { limit: numberOption(options, 'limit'), cursor: textOption(options, 'cursor') };
  const page = await (
    await connect()
  ).call<{ items: UserAnswer[]; next_cursor: string | null }>('GET', '/v1/users', { query });
  output.list(page, columns, 'No users yet: a user exists from its first write.');
};

export const get: Action = async ({ connect, output }, [user]) => {
  output.value(await (await connect()).call<UserAnswer>('GET', userPath(user)));
};

export const set: Action = async ({ connect, output }, [user], options) => {
  const quota = textOption(options, 'agentsMax');
  const body = present({
    email: textOption(options, 'email'),
    agents_max: quota === 'none' ? null : numberOption(options, 'agentsMax'),
  });
  if (Object.keys(body).length === 0)
    throw new StoaError('invalid_request', 'There is nothing to set.', {
      fix: 'Give --email or --agents-max.',
    });
  output.value(await (await connect('created')).call<UserAnswer>('PUT', userPath(user), { body }));
};

/** A user is named by any text: one that begins with "~" must not be taken for the bytes of another's name. */
export function userPath(user = ''): string {
  return `/v1/users/${encodeSegment(user)}`;
}

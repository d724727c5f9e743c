/** `stoa users …`: who has used this server, and their quotas. */
import { StoaError } from '../../core/errors.js';
import type { UserAnswer } from '../../registry/schemas.js';
import { type Action, numberOption, pageQuery, present, textOption } from '../definition.js';
import type { Column } from '../output.js';

const columns: readonly Column<UserAnswer>[] = [
  ['USER', (user) => user.user],
  ['AGENTS', (user) => `${user.agents}/${user.agents_max}`],
  ['EMAIL', (user) => user.email || null],
  ['LAST_SEEN', (user) => user.last_seen_at],
  ['ID', (user) => user.user_id],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const page = await (await connect()).call('users.list', pageQuery(options));
  output.list(page, columns, 'No users yet: a user exists from its first write.');
};

export const get: Action = async ({ connect, output }, [user = '']) => {
  output.value(await (await connect()).call('users.get', { user }));
};

export const set: Action = async ({ connect, output }, [user = ''], options) => {
  const quota = textOption(options, 'agentsMax');
  const fields = present({
    email: textOption(options, 'email'),
    agents_max: quota === 'none' ? null : numberOption(options, 'agentsMax'),
  });
  if (Object.keys(fields).length === 0)
    throw new StoaError('invalid_request', 'There is nothing to set.', {
      fix: 'Give --email or --agents-max.',
    });
  output.value(await (await connect('created')).call('users.set', { user, ...fields }));
};

/** `stoa token …`: bearer tokens of users. */
import { StoaError } from '../../core/errors.js';
import type { Token } from '../../identity/schemas.js';
import {
  type Action,
  type Context,
  durationOption,
  listOption,
  pageQuery,
  present,
  textOption,
} from '../definition.js';
import type { Column } from '../output.js';

const columns: readonly Column<Token>[] = [
  ['ID', (token) => token.token_id],
  ['NAME', (token) => token.name],
  ['MAY', (token) => (token.scopes.write ? 'read, write' : 'read')],
  ['NAMESPACES', (token) => token.scopes.namespaces?.join(', ') ?? 'all'],
  ['CREATED', (token) => token.created_at],
  ['EXPIRES', (token) => token.expires_at],
  ['LAST_USED_AT', (token) => token.last_used_at],
];

export const create: Action = async (context, _args, options) => {
  const namespaces = listOption(options, 'namespace');
  const scopes = present({
    write: options['readOnly'] === true ? false : undefined,
    namespaces: namespaces && [...namespaces],
  });
  const body = present({
    name: textOption(options, 'name'),
    expires_in: durationOption(options, 'expiresIn'),
    scopes: Object.keys(scopes).length === 0 ? undefined : scopes,
  });
  const created = await (
    await context.connect('created')
  ).call('tokens.create', { user: userOf(context), ...body });
  context.output.value(created);
  context.output.say('The token is shown this once and not kept.');
};

export const ls: Action = async (context, _args, options) => {
  const input = { user: userOf(context), ...pageQuery(options) };
  context.output.list(await (await context.connect()).call('tokens.list', input), columns, 'No tokens.');
};

export const revoke: Action = async (context, [token = '']) => {
  const answer = await (await context.connect()).call('tokens.revoke', { user: userOf(context), token });
  context.output.done(
    answer,
    answer.revoked.length === 0 ? 'Nothing to revoke.' : `Revoked ${answer.revoked.join(', ')}.`,
  );
};

/** A token is always somebody's: making one for `default` by accident would be a silent surprise. */
function userOf({ globals }: Context): string {
  const user = textOption(globals, 'user');
  if (user === undefined)
    throw new StoaError('invalid_request', 'The command does not name the user of the token.', {
      fix: 'Add --user NAME, or set STOA_USER.',
    });
  return user;
}

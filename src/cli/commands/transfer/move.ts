/** `stoa move`: a whole Stoa from home to home, or the documents where one side is a store of documents. */
import { StoaError } from '../../../core/errors.js';
import { withoutPassword } from '../../../core/text/printable-url.js';
import { type Action, type Options, textOption } from '../../definitions/definition.js';

/** One side of a move. */
export type Place =
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'postgres'; readonly postgres: string; readonly redis: string }
  | { readonly kind: 'store'; readonly url: string };

export const move: Action = async ({ output, settings }, _args, options) => {
  const from = placeOf(options, { place: 'from', redis: 'fromRedis' });
  const to = placeOf(options, { place: 'to', redis: 'redis' });
  if (addressOf(from) === addressOf(to))
    throw new StoaError('invalid_request', `--from and --to are the same place (${nameOf(from)}).`, {
      fix: 'Name another target with --to.',
    });
  const { config } = settings();
  const dryRun = options['dryRun'] === true;
  const state = textOption(options, 'state');
  if (from.kind === 'store' || to.kind === 'store') {
    const { moveStore } = await import('./move-documents.js');
    return moveStore({ output, config, from, to, dryRun, state });
  }
  if (state !== undefined)
    throw new StoaError(
      'invalid_request',
      '--state is set, but a move between homes notes its progress in the target.',
      { fix: 'Leave --state out. The same command continues an interrupted move.' },
    );
  const { moveStoa } = await import('./move-home.js');
  return moveStoa({ output, config, from, to, dryRun });
};

/** For people, without a password. */
export function nameOf(place: Place): string {
  return withoutPassword(addressOf(place));
}

function addressOf(place: Place): string {
  if (place.kind === 'directory') return place.path;
  return place.kind === 'postgres' ? place.postgres : place.url;
}

function placeOf(options: Options, names: { place: 'from' | 'to'; redis: 'fromRedis' | 'redis' }): Place {
  const place = textOption(options, names.place);
  const redis = textOption(options, names.redis);
  const flag = names.redis === 'redis' ? '--redis' : '--from-redis';
  if (place === undefined)
    throw new StoaError('invalid_request', `--${names.place} is missing.`, {
      fix: 'Add a data directory or a URL, for example postgres://localhost/stoa.',
    });
  const isPostgres = /^postgres(ql)?:\/\//i.test(place);
  if (isPostgres && redis === undefined)
    throw new StoaError(
      'invalid_request',
      `${flag} is missing: ${withoutPassword(place)} needs the Redis beside it.`,
      { fix: `Add ${flag} with its redis:// URL.` },
    );
  if (!isPostgres && redis !== undefined)
    throw new StoaError(
      'invalid_request',
      `${flag} is set, but --${names.place} is not PostgreSQL (${withoutPassword(place)}).`,
      { fix: `Leave ${flag} out.` },
    );
  if (isPostgres && redis !== undefined) return { kind: 'postgres', postgres: place, redis };
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\//i.test(place);
  return isUrl ? { kind: 'store', url: place } : { kind: 'directory', path: place };
}

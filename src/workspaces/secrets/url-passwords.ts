/** Finds passwords in URLs. They are refused in fields that are not encrypted, and never shown. */
import { StoaError } from '../../core/errors.js';
import { withoutPassword } from '../../core/text/printable-url.js';
import { secretMask } from '../../secrets/sealer.js';
import type { JsonObject, JsonValue, Project } from '../model.js';

/**
 * From the scheme to the first letter of the password. No two matches can share a letter: a long text costs
 * no more than its length.
 */
const untilPassword = /[a-z0-9+.-]:\/\/[^/@:]*:./i;
/**
 * A name and a number that end where a path begins: a host and its port, or a user and the first digits of a
 * password.
 */
const nameAndNumber = /:\/\/(\[[^\]/@]*\]|[^/@:[]*):\d{1,5}(?=\/)/g;
/** Tokens that are given as the name of the user, by the beginnings that GitHub and GitLab give theirs. */
const tokenAsUser = /:\/\/(?:gh[a-z]_|github_pat_|gl[a-z]{2,5}-)[^/@:\s]*@/i;
const secretInQuery = /[?&](?:access_token|private_token|token|password|secret)=./i;

/** Whether a text has a URL with a password in it. */
export function holdsUrlPassword(text: string): boolean {
  return (
    text.includes('://') &&
    text
      .split(/\s+/)
      .some(
        (word) => untilPassword.test(beforeLastAt(withoutHostsAndPorts(word))) || hasPasswordBeforeHost(word),
      )
  );
}

/**
 * A host has a dot or brackets, which a user name rarely has. Another name is a user if a host follows the
 * `@`.
 */
function withoutHostsAndPorts(word: string): string {
  const endsWithHost = word.slice(word.lastIndexOf('@')).includes('.');
  return word.replace(nameAndNumber, (whole, name: string) =>
    endsWithHost && !/[.[]|^localhost$/.test(name) ? whole : '://',
  );
}

/** After a user name that contains an `@`, such as a mail address. */
function hasPasswordBeforeHost(word: string): boolean {
  const [, ...places] = word.split('://');
  return places.some((place) => beforeLastAt(place.split('/', 1)[0] ?? '').includes(':'));
}

/** A password may contain an `@` that was not encoded. */
function beforeLastAt(word: string): string {
  return word.slice(0, Math.max(0, word.lastIndexOf('@')));
}

/** The same for an address that a repository is fetched from, which may carry a token in other places too. */
function holdsCredentials(text: string): boolean {
  return (
    holdsUrlPassword(text) || (text.includes('://') && (tokenAsUser.test(text) || secretInQuery.test(text)))
  );
}

interface GitFields {
  git_url?: string | undefined;
  git_info?: JsonObject | undefined;
}

/** `git_url` and `git_info` are stored and shown in plain text, so they must not contain secrets. */
export function checkGitFields({ git_url: url = '', git_info: info = {} }: GitFields): void {
  const field = holdsCredentials(url) ? 'git_url' : someText(info, holdsCredentials) ? 'git_info' : undefined;
  if (field === undefined) return;
  throw new StoaError(
    'invalid_request',
    `${field} contains a password or token, which would be stored and shown in plain text.`,
    {
      fix: 'Store the password in config under "secrets", where it is encrypted. Write "@" in a path as %40.',
      details: { field },
    },
  );
}

/** A project as answers show it, without passwords that were stored before they were refused. */
export function withoutGitPasswords<Shown extends Pick<Project, 'git_url' | 'git_info'>>(
  project: Shown,
): Shown {
  const { git_url, git_info } = project;
  const isBad = holdsCredentials(git_url);
  const isBadInside = someText(git_info, holdsCredentials);
  if (!isBad && !isBadInside) return project;
  return {
    ...project,
    git_url: isBad ? maskedAddress(git_url) : git_url,
    git_info: isBadInside ? maskedObject(git_info) : git_info,
  };
}

/** A text that is not a URL from its first letter has no part that could be removed. */
function maskedAddress(text: string): string {
  const masked = withoutPassword(text);
  return masked === text ? secretMask : masked;
}

function someText(value: JsonValue, test: (text: string) => boolean): boolean {
  if (typeof value === 'string') return test(value);
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.values(value).some((member) => someText(member, test))
  );
}

function maskedObject(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, maskedValue(value)]));
}

function maskedValue(value: JsonValue): JsonValue {
  if (typeof value === 'string') return holdsCredentials(value) ? secretMask : value;
  if (Array.isArray(value)) return value.map(maskedValue);
  return typeof value === 'object' && value !== null ? maskedObject(value) : value;
}

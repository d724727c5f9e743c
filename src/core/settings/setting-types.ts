/** The types that a setting's value can have, and how each is read. */
import { hasStrayAt } from '../text/printable-url.js';

/** Reads a value from text (flags, environment) or from JSON (the file); `complaint` says what is wrong. */
export interface SettingType<Value> {
  /** For help and documentation: `port number`, `true or false`. */
  readonly about: string;
  read(given: unknown): { value: Value } | { complaint: string };
}

export const text: SettingType<string> = {
  about: 'text',
  read: (given) =>
    typeof given === 'string' && given !== ''
      ? { value: given }
      : { complaint: 'must be text and not empty' },
};

export const onOrOff: SettingType<boolean> = {
  about: 'true or false',
  read: (given) => {
    if (given === true || given === 'true' || given === '1') return { value: true };
    if (given === false || given === 'false' || given === '0') return { value: false };
    return { complaint: 'must be true or false' };
  },
};

export const list: SettingType<readonly string[]> = {
  about: 'a list, separated by commas',
  read: (given) => {
    const items =
      typeof given === 'string'
        ? given
            .split(',')
            .map((item) => item.trim())
            .filter((item) => item !== '')
        : given;
    if (!Array.isArray(items) || !items.every((item) => typeof item === 'string'))
      return { complaint: 'must be a list of texts' };
    return { value: items };
  },
};

/** Sites as browsers write them in the Origin header. */
export const originList: SettingType<readonly string[]> = {
  about: `${list.about}, such as https://app.example.org`,
  read: (given) => {
    const read = list.read(given);
    const wrong = 'value' in read ? read.value.find((each) => !isOrigin(each)) : undefined;
    return wrong === undefined
      ? read
      : {
          complaint: `must be a list of origins such as https://app.example.org, with nothing after the port`,
        };
  },
};

function isOrigin(given: string): boolean {
  return /^https?:/i.test(given) && URL.canParse(given) && new URL(given).origin === given.toLowerCase();
}

/** A whole number between two bounds. Text may contain only digits: `7862x`, `0x10` and `1e3` are refused. */
export function wholeNumber(
  min: number,
  max: number,
  about = `a whole number from ${min} to ${max}`,
): SettingType<number> {
  return {
    about,
    read: (given) => {
      const value = typeof given === 'string' && /^\d{1,16}$/.test(given) ? Number(given) : given;
      if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
        return { complaint: `must be ${about}` };
      return { value };
    },
  };
}

export function oneOf<Choice extends string>(choices: readonly Choice[]): SettingType<Choice> {
  const about = oneOfText(choices);
  return {
    about,
    read: (given) => {
      const value = choices.find((choice) => choice === given);
      return value === undefined ? { complaint: `must be ${about}` } : { value };
    },
  };
}

function oneOfText(names: readonly string[]): string {
  return names.join(', ').replace(/, ([^,]*)$/, ' or $1');
}

export function orNone<Value>(type: SettingType<Value>): SettingType<Value | null> {
  return { about: type.about, read: (given) => (given === null ? { value: null } : type.read(given)) };
}

/** The URL of a service over HTTP, or null. */
export const serviceUrl: SettingType<string | null> = orNone<string>({
  about: 'an http:// or https:// URL',
  read: (given) => {
    if (typeof given !== 'string' || !/^https?:\/\//i.test(given) || !URL.canParse(given))
      return { complaint: 'must be an http:// or https:// URL' };
    const { username, password } = new URL(given);
    if (username !== '' || password !== '')
      return { complaint: 'has a user name or a password; give a token in its own setting' };
    return { value: given };
  },
});

/** The URL of a database server, or null. */
export function backendUrl(schemes: readonly string[]): SettingType<string | null> {
  const about = `a URL with the scheme ${oneOfText(schemes)}`;
  return orNone<string>({
    about,
    read: (given) => {
      if (typeof given !== 'string') return { complaint: `must be ${about}` };
      const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(given)?.[1]?.toLowerCase();
      if (scheme === undefined) return { complaint: `must be ${about}` };
      if (!schemes.includes(scheme))
        return { complaint: `has the scheme "${scheme}", which is unknown; it must be ${about}` };
      if (hasStrayAt(given))
        return {
          complaint:
            'has an "@" after the server name; in a password, write %2F for /, %3F for ?, %23 for # and ' +
            '%40 for @',
        };
      return URL.canParse(given) ? { value: given } : { complaint: 'is not a valid URL' };
    },
  });
}

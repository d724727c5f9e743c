/** The fields of a change that were given. */

/** Without undefined fields: an absent field must neither overwrite a stored one nor hide a default. */
export function given<T extends object>(fields: T): { [Name in keyof T]: Exclude<T[Name], undefined> } {
  // Object.fromEntries forgets which keys it had. They are those of T, without the undefined ones.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]: Exclude<T[Name], undefined>;
  };
}

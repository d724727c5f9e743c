/** The seed's composite id: `{userId}:{namespace}:{URL-safe base64 of the key, padded}`. */

export function documentId(userId: string, namespace: string, key: string): string {
  return `${userId}:${namespace}:${paddedBase64Url(key)}`;
}

/** The key in the last part of an id, or undefined if it contains none. */
export function keyOfId(id: string): string | undefined {
  const encoded = id.slice(id.lastIndexOf(':') + 1);
  const key = Buffer.from(encoded, 'base64url').toString('utf8');
  return paddedBase64Url(key) === encoded ? key : undefined;
}

/** Node's base64url drops the padding that the seed has. */
function paddedBase64Url(text: string): string {
  const encoded = Buffer.from(text, 'utf8').toString('base64url');
  return encoded + '='.repeat((4 - (encoded.length % 4)) % 4);
}

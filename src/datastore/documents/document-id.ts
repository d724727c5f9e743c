/** The seed's composite id: `{userId}:{namespace}:{URL-safe base64 of the key, padded}`. */

export function documentId(userId: string, namespace: string, key: string): string {
  return `${userId}:${namespace}:${paddedBase64Url(key)}`;
}

/** Node's base64url drops the padding that the seed has. */
function paddedBase64Url(text: string): string {
  const encoded = Buffer.from(text, 'utf8').toString('base64url');
  return encoded + '='.repeat((4 - (encoded.length % 4)) % 4);
}

import { expect, test } from 'vitest';
import { documentId } from '../../../src/datastore/documents/document-id.js';

test.each([
  ['user_123', 'files:my-repo', 'src/main.py', 'user_123:files:my-repo:c3JjL21haW4ucHk='],
  ['u', 'n', '???>>>', 'u:n:Pz8_Pj4-'],
  ['u', 'n', 'ключ/é?>', 'u:n:0LrQu9GO0Ycvw6k_Pg=='],
  ['u1', 'default', 'k', 'u1:default:aw=='],
  ['user_123', 'default', 'greeting', 'user_123:default:Z3JlZXRpbmc='],
])('the id of %s / %s / %s is the padded URL-safe base64 of the seed', (user, namespace, key, id) => {
  expect(documentId(user, namespace, key)).toBe(id);
});

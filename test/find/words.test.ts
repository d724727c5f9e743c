import { describe, expect, test } from 'vitest';
import { parseQuery, termsOfQuery } from '../../src/find/query/query.js';
import { packText, packedTerms } from '../../src/find/segments/packed-terms.js';
import { documentText } from '../../src/find/text/document-text.js';
import { taskText } from '../../src/find/text/task-text.js';
import { formsTermOf } from '../../src/find/words/entry-terms.js';
import { fold } from '../../src/find/words/fold.js';
import { stemOf } from '../../src/find/words/stem.js';
import { tokensOf } from '../../src/find/words/words.js';

const bodyOf = (key: string, value: unknown): readonly string[] =>
  documentText({ key, valueJson: JSON.stringify(value), metadata: {} }).body;
const shown = (text: string): string | undefined => bodyOf('k', text)[0];
/** Keys are not whole in this file: programs that look for secrets would report it. */
const joined = (...parts: string[]): string => parts.join('');
const required = (text: string): string[][] =>
  parseQuery(text)
    .groups.filter(({ isCounted }) => isCounted)
    .map(({ terms }) => terms.map(({ term }) => term).slice(0, 1));
const words = (text: string): string[] => tokensOf(text).map(({ word }) => word);

describe('the words of a text', () => {
  test('accents, case and compatibility forms do not matter', () => {
    expect(['Café', 'CAFE\u0301', 'ｃａｆｅ', 'Straße', 'Œuvre', 'Łódź'].map(fold)).toEqual([
      'cafe',
      'cafe',
      'cafe',
      'strasse',
      'oeuvre',
      'lodz',
    ]);
  });

  test('every letter folds in a word as it folds alone', () => {
    const different: string[] = [];
    for (let unit = 0; unit <= 0xffff; unit += 1) {
      const letter = String.fromCharCode(unit);
      if (!/[\p{L}\p{M}]/u.test(letter)) continue;
      const [token] = tokensOf(`${letter}x`);
      if (token?.kind === 'word' && token.end === 2 && token.word !== fold(`${letter}x`))
        different.push(unit.toString(16));
    }
    expect(different).toEqual([]);
  });

  test('vowel signs of Hindi and voiced marks of Japanese stay', () => {
    expect(fold('किताब')).toBe('किताब');
    expect(fold('が')).toBe('が');
  });

  test('code words are found whole and in parts', () => {
    expect(words('getUserById')).toEqual(['get', 'user', 'by', 'id', 'getuserbyid']);
    expect(words('user_id')).toEqual(['user', 'id', 'user_id']);
    expect(words('src/app.ts')).toEqual(['src', 'app', 'ts', 'src/app.ts']);
    expect(words('E404')).toEqual(['e', '404', 'e404']);
    expect(words('HTTPServer')).toEqual(['http', 'server', 'httpserver']);
    expect(words('x.user_id')).toEqual(['x', 'user', 'id', 'user_id', 'x.user_id']);
    expect(words('C++ and C#')).toEqual(['c', 'c++', 'and', 'c', 'c#']);
  });

  test('parts stand one after the other, and the whole stands where they begin', () => {
    expect(tokensOf('see user_id now').map(({ word, position }) => `${word}${position}`)).toEqual([
      'see0',
      'user1',
      'id2',
      'user_id1',
      'now3',
    ]);
  });

  test('scripts without spaces give overlapping pairs and their last character', () => {
    expect(words('数据库 ok')).toEqual(['数据', '据库', '库', 'ok']);
  });

  test('decomposed text, as macOS writes the names of files, has the same words in every script', () => {
    for (const text of ['데이터베이스 각', 'がぎデータベース', 'ﾃﾞｰﾀ', 'Größe', 'счёт', 'خطأ', 'ứng dụng']) {
      const composed = tokensOf(text).map(({ word, position, kind }) => ({ word, position, kind }));
      const decomposed = text.normalize('NFD');
      expect(
        tokensOf(decomposed).map(({ word, position, kind }) => ({ word, position, kind })),
        text,
      ).toEqual(composed);
      expect(tokensOf(decomposed).at(-1)?.end).toBe(decomposed.length);
    }
  });

  test('Arabic words are found without hamza, madda and the stroke that makes them longer', () => {
    expect(['أحمد', 'إلى', 'آخر', 'كتـــاب', 'سؤال'].map(fold)).toEqual([
      'احمد',
      'الى',
      'اخر',
      'كتاب',
      'سوال',
    ]);
    expect(words('ـ ـــ كتـــاب')).toEqual(['كتاب']);
  });

  test('forms of an English word have one stem', () => {
    for (const forms of [
      ['deploy', 'deployed', 'deploying', 'deploys', 'deployment', 'deployments'],
      ['choose', 'chose', 'chosen', 'choosing', 'chooses'],
      ['stop', 'stopped', 'stopping', 'stops'],
      ['retry', 'retries', 'retried', 'retrying'],
      ['migrate', 'migration', 'migrations', 'migrating', 'migrated'],
      ['cache', 'caches', 'cached', 'caching'],
      ['quick', 'quickly'],
      ['cancel', 'cancels', 'cancelled', 'cancelling', 'canceled', 'cancellation'],
      ['configure', 'configured', 'configuration', 'configurations'],
      ['install', 'installed', 'installing', 'installation'],
      ['implement', 'implemented', 'implementation'],
      ['validate', 'validated', 'validating', 'validation'],
      ['encrypt', 'encrypted', 'encryption'],
      ['compress', 'compressed', 'compression'],
      ['delete', 'deleted', 'deletion'],
      ['execute', 'executing', 'execution'],
      ['remove', 'removed', 'removal'],
      ['deliver', 'delivered', 'delivery', 'deliveries'],
      ['notify', 'notified', 'notification', 'notifications'],
    ])
      expect(new Set(forms.map(stemOf))).toHaveLength(1);
  });

  test('different words keep different stems', () => {
    for (const [one, other] of [
      ['string', 'strong'],
      ['news', 'new'],
      ['document', 'docu'],
      ['redis', 'redi'],
      ['process', 'proceed'],
      ['call', 'cal'],
      ['create', 'cre'],
      ['format', 'form'],
      ['general', 'generate'],
      ['mission', 'miss'],
      ['option', 'opt'],
      ['station', 'state'],
    ] as const)
      expect(stemOf(one)).not.toBe(stemOf(other));
  });

  test('code words are never stemmed', () => {
    expect(
      Array.from(packedTerms(packText({ title: [], body: ['handle_requests'] })), ([term]) => term),
    ).toEqual(['handle', 'requests', 'handle_requests']);
  });

  test('a text without end is cut, and no input takes long', () => {
    const started = performance.now();
    for (const text of [
      'a'.repeat(1e6),
      '_'.repeat(1e6),
      'a.'.repeat(5e5),
      'aA'.repeat(5e5),
      '库'.repeat(3e5),
    ])
      packText(documentText({ key: 'k', valueJson: JSON.stringify(text), metadata: {} }));
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe('the text of a document', () => {
  test('the key and titles, and every string with its path', () => {
    const text = documentText({
      key: 'decisions/database',
      valueJson: JSON.stringify({
        title: 'Storage',
        choice: { engine: 'PostgreSQL' },
        reasons: ['simple', 'known'],
      }),
      metadata: { tags: ['infra'], internal: 'hidden' },
    });
    expect(text.title).toEqual(['decisions/database', 'Storage']);
    expect(text.body).toEqual(['infra', 'choice engine', 'PostgreSQL', 'reasons', 'simple', 'known']);
  });

  test('the titles of things in a list are found as other text is', () => {
    const body = ['title', 'Storage', 'name', 'Ada', 'Bob'];
    expect(bodyOf('k', [{ title: 'Storage' }, { name: 'Ada' }, [{ name: 'Bob' }]])).toEqual(body);
  });

  test('members that are named after a secret are left out', () => {
    const { body } = documentText({
      key: 'k',
      valueJson: JSON.stringify({
        db_password: 'hunter2',
        nested: { apiKey: 'sk-1', note: 'fine' },
        tokens: 'five',
        secrets: { anything: 'sk-2', list: ['sk-3'] },
      }),
      metadata: {},
    });
    expect(body).toEqual(['nested note', 'fine', 'tokens', 'five']);
  });

  const secretNames =
    'password PASSWORD passWord user_password userPassword dbpassword passwordHash password2 new-password passwd pwd ' +
    'passphrase passcode secret SECRET1 secrets clientSecret clientsecret client_secret secretValue credentials creds ' +
    'apikey APIKEY apiKey apiKeys api-key X-Api-Key OPENAI_API_KEY openaiApiKey api_key_v2 myapikey privateKey ' +
    'private_key_pem aws_secret_access_key sshKey masterKey hmac_key auth_key session-key signing_key token Token ' +
    'authToken access_token access_tokens refreshTokens session_jwt bearer Authorization Proxy-Authorization mnemonic ' +
    'seed_phrase connectionString db.password prod/secret Passwort пароль contraseña 密码 パスワード';

  test.each([...secretNames.split(' '), 'API Key', 'contrasen\u0303a'])(
    '%s is the name of a secret',
    (name) => {
      expect(bodyOf('k', { [name]: 'hunter2', deep: { [name]: { a: ['hunter2 and more'] } } })).toEqual([]);
    },
  );

  test.each(
    'key monkey primary_key keys tokens tokens_used token_count secretary author compass passenger password-policy'.split(
      ' ',
    ),
  )('%s is not', (name) => {
    expect(bodyOf('k', { [name]: 'word' })).toEqual([name, 'word']);
  });

  test('a word whose key is named after a secret is left out, and a note about it is not', () => {
    for (const key of ['prod/db_password', 'prod/token', 'secrets/aws', 'x.apiKey'])
      for (const value of [
        'hunter2',
        ' hunter2\n',
        ['hunter2'],
        { value: 'hunter2', more: { list: ['hunter2'] } },
      ])
        expect(bodyOf(key, value)).toEqual([]);
    expect(bodyOf('faq/reset-password', 'Ask the operator.')).toEqual(['Ask the operator.']);
    expect(bodyOf('faq/reset-password', { text: 'Ask the operator.' })).toEqual([
      'text',
      'Ask the operator.',
    ]);
    expect(bodyOf('faq/passwords-and-you', 'word')).toEqual(['word']);
    expect(bodyOf('prod/engine', 'lmdb')).toEqual(['lmdb']);
  });

  test('a word beside the name of a secret is left out, and so is one under a name that may be that of a secret', () => {
    expect(bodyOf('k', [{ name: 'DB_PASSWORD', value: 'hunter2' }])).toEqual([]);
    expect(bodyOf('k', { env: { key: 'API_TOKEN', value: 'hunter2' } })).toEqual([]);
    expect(bodyOf('k', { auth: { user: 'ada', pass: 'hunter2' }, otp: '123456' })).toEqual([
      'auth user',
      'ada',
    ]);
    expect(bodyOf('k', { first_pass: 'It looks fine.' })).toEqual(['first_pass', 'It looks fine.']);
    expect(bodyOf('k', [{ name: 'Rotate the API key', status: 'open' }])).toEqual([
      'name',
      'Rotate the API key',
      'status',
      'open',
    ]);
  });
});

describe('a secret in running text is left out', () => {
  test.each([
    ['DB_PASSWORD=hunter2 ./run', 'DB_PASSWORD=… ./run'],
    ['Env: DB_PASSWORD=hun,ter2;', 'Env: DB_PASSWORD=…;'],
    ['export API_KEY="two words" && run', 'export API_KEY="…" && run'],
    ['curl -H "Authorization: Bearer abc.def" url', 'curl -H "Authorization: Bearer …" url'],
    ['Authorization: Basic QWxhZGRpbg==', 'Authorization: Basic …'],
    ['sent Bearer 0123456789abcdef0 twice', 'sent Bearer … twice'],
    ['deploy --token abc --verbose', 'deploy --token … --verbose'],
    ['deploy --db-password=abc', 'deploy --db-password=…'],
    ['The password: hunter2.', 'The password: ….'],
    ['password: swordfish\nuser: ada', 'password: …\nuser: ada'],
    ['{"user": "ada", "password": "swordfish"}', '{"user": "ada", "password": "…"}'],
    [String.raw`{\"password\": \"swordfish\"}`, String.raw`{\"password\": \"…\"}`],
    [`{"password": "it's-hunter2"}`, '{"password": "…"}'],
    [String.raw`{"password": "a\"hunter2"}`, '{"password": "…"}'],
    [joined('BOT_TOKEN=', 'MTk4NjIyNDgzNDcxOTI1MjQ4', '.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs'), 'BOT_TOKEN=…'],
    ['API key: 12345abc, then', 'API key: …, then'],
    ['GET https://x.org/?token=abc&page=2', 'GET https://x.org/?token=…&page=2'],
    ['postgres://app:s3cret@db:5432/x', 'postgres://app:…@db:5432/x'],
    [joined('uses sk-', 'proj-0123456789abcdefghij', ' now'), 'uses … now'],
    [joined('ghp', '_0123456789abcdefghijABCDEFGHIJ012345'), '…'],
    [joined('AKIA', 'IOSFODNN7EXAMPLE'), '…'],
    [joined('eyJ', 'hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def'), '…'],
    [joined('stoa_', 'operator_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG'), '…'],
    [joined('a\n-----BEGIN RSA ', 'PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nb'), 'a\n…\nb'],
    [joined('-----BEGIN ', 'PRIVATE KEY-----\nMIIabc'), '…'],
    ['密码：abc123', '密码：…'],
  ])('%j', (text, left) => {
    expect(shown(text)).toBe(left);
  });

  test.each([
    'the password is wrong, reset the token',
    'const token = await getToken();',
    'password = process.env.PASSWORD',
    'run(user: string, token: string)',
    'docker run -e PASSWORD=${PASSWORD} --token $TOKEN',
    'The password: ask Ann for it.',
    'if (password == other)',
    'secret: <your secret>',
    'use the --token option',
    'tokens: 512 of 1024, max_tokens=512',
    'http://localhost:8080/a@b',
    'the sk-learn-feature-extraction-tools of ghp_short',
    'basic internationalization',
    'the field `password:` is required for users',
    "grep 'token=' file.txt",
    'fill in "password:", then go',
    'global-configuration-of-services and pypi-package-release-automation-scripts',
  ])('and what only speaks of one is not: %j', (text) => {
    expect(shown(text)).toBe(text);
  });

  test('also where the title of a task ends inside the secret', () => {
    const command = `${'deploy '.repeat(14)}postgres://ada:hunter2hunter2@db/x`;
    const none = { output: null, error: null, question: null, answer: null };
    expect(taskText({ command, labels: [], ...none }).title).toEqual([
      expect.not.stringContaining('hunter') as string,
    ]);
  });

  test('also where the text is cut', () => {
    const text = shown(`${'word '.repeat(13_104)}DB_PASSWORD=hunter2-and-more-of-it ${'word '.repeat(9)}`);
    expect(text).toMatch(/word DB_PASSWORD=…$|word$/);
    expect(text).not.toContain('hunter');
  });
});

describe('a query', () => {
  test('a word stands for its other forms, which count less', () => {
    const [group] = parseQuery('Deployed').groups;
    expect(group?.terms.map(({ term }) => term)).toEqual(['deployed', 'deploy', formsTermOf('deploy')]);
  });

  test('phrases, excluded words and beginnings', () => {
    const query = parseQuery('"blue green" -canary dep*');
    expect(query.phrases).toEqual([
      [
        { term: 'blue', offset: 0 },
        { term: 'green', offset: 1 },
      ],
    ]);
    expect(query.excluded).toEqual([[{ term: 'canary', offset: 0 }]]);
    expect(query.groups.at(-1)?.terms).toEqual([{ term: 'dep', weight: 1, isPrefix: true }]);
  });

  test('the short parts of words with an apostrophe are not required', () => {
    expect(required("what's the server's port")).toEqual([['server'], ['port']]);
    expect(required("why didn't we’ve l'élève qu’ici")).toEqual([['eleve'], ['ici']]);
    expect(required("who won what won't")).toEqual([['won']]);
    expect(required("vitamin d 'd'")).toEqual([['vitamin'], ['d']]);
    expect(required("it's")).toEqual([['it'], ['s']]);
  });

  test('a fifth beginning stands for the word itself', () => {
    const terms = termsOfQuery(parseQuery('alpha* beta* gamma* delta* omega*'));
    expect(terms).toEqual({ terms: ['omega'], beginnings: ['alpha', 'beta', 'gamma', 'delta'] });
  });

  test('one character of a script without spaces finds the pairs that begin with it', () => {
    expect(parseQuery('猫 犬').groups.map(({ terms }) => terms)).toEqual([
      [{ term: '猫', weight: 1, isPrefix: true }],
      [{ term: '犬', weight: 1, isPrefix: true }],
    ]);
    expect(parseQuery('数据库').groups.flatMap(({ terms }) => terms.map(({ term }) => term))).toEqual([
      '数据',
      '据库',
    ]);
  });

  test('a code word asks for its parts, and the whole adds to the score', () => {
    const { groups } = parseQuery('user_id');
    expect(groups.map(({ terms, isCounted }) => [terms[0]?.term, isCounted])).toEqual([
      ['user', true],
      ['id', true],
      ['user_id', false],
    ]);
  });
});

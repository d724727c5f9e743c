import { describe, expect, test } from 'vitest';
import { parseQuery, termsOfQuery } from '../../src/find/query/query.js';
import { packText, packedTerms } from '../../src/find/segments/packed-terms.js';
import { documentText } from '../../src/find/text/document-text.js';
import { formsTermOf } from '../../src/find/words/entry-terms.js';
import { fold } from '../../src/find/words/fold.js';
import { stemOf } from '../../src/find/words/stem.js';
import { tokensOf } from '../../src/find/words/words.js';

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

  test('forms of an English word have one stem', () => {
    for (const forms of [
      ['deploy', 'deployed', 'deploying', 'deploys', 'deployment', 'deployments'],
      ['choose', 'chose', 'chosen', 'choosing', 'chooses'],
      ['stop', 'stopped', 'stopping', 'stops'],
      ['retry', 'retries', 'retried', 'retrying'],
      ['migrate', 'migration', 'migrations', 'migrating', 'migrated'],
      ['cache', 'caches', 'cached', 'caching'],
      ['quick', 'quickly'],
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

  test('members that are named after a secret are left out', () => {
    const { body } = documentText({
      key: 'k',
      valueJson: JSON.stringify({
        db_password: 'hunter2',
        nested: { apiKey: 'sk-1', note: 'fine' },
        tokens: 'five',
      }),
      metadata: {},
    });
    expect(body).toEqual(['nested note', 'fine', 'tokens', 'five']);
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

import { describe, expect, it } from 'vitest';
import {
  AddressRanges,
  callerAddress,
  countedAddress,
  plainAddress,
} from '../../src/messaging/gate/addresses.js';
import { agentNameOf, isEmail, roomNameOf } from '../../src/messaging/names.js';
import { SlidingWindows } from '../../src/messaging/gate/sliding-windows.js';
import { hasWords, indexWords, queryWords } from '../../src/messaging/messages/tokenizer.js';
import { agoInWords } from '../../src/messaging/rooms/totals.js';
import { newUlid, ulidBytes, ulidOfBytes, ulidTimeMs } from '../../src/messaging/messages/ulid.js';
import {
  canonicalRoomId,
  canonicalUuid,
  globalRoomId,
  uuidBytes,
  uuidOfBytes,
} from '../../src/messaging/identities/uuid.js';

describe('a UUID', () => {
  const canonical = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';

  it('means the same in every spelling', () => {
    for (const spelling of [
      canonical,
      canonical.toUpperCase(),
      canonical.replaceAll('-', ''),
      `urn:uuid:${canonical}`,
      `URN:UUID:${canonical}`,
      `{${canonical}}`,
    ]) {
      expect(canonicalUuid(spelling), spelling).toBe(canonical);
    }
    expect(uuidOfBytes(uuidBytes(canonical))).toBe(canonical);
    expect(canonicalRoomId('global')).toBe(globalRoomId);
  });

  it('is not read from other text', () => {
    for (const other of [
      '',
      'global',
      `${canonical}0`,
      `{${canonical}`,
      canonical.slice(1),
      `${canonical.slice(0, 35)}g`,
      `6ba7b8109-dad-11d1-80b4-00c04fd430c8`,
      ` ${canonical}`,
      `${canonical}\n`,
    ]) {
      expect(canonicalUuid(other), other).toBeUndefined();
    }
  });
});

describe('a ULID', () => {
  it('contains its time and sorts by it', () => {
    const id = newUlid(1_700_000_000_000);
    expect(id).toMatch(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
    expect(ulidTimeMs(id)).toBe(1_700_000_000_000);
    expect(newUlid(1_700_000_000_001) > id).toBe(true);
    expect(ulidOfBytes(ulidBytes(id) as Buffer)).toBe(id);
    expect(ulidTimeMs('01ARZ3NDEKTSV4RRFFQ69G5FAV')).toBe(1_469_922_850_259);
    expect(newUlid(1)).not.toBe(newUlid(1));
  });

  it('is not read from other text', () => {
    for (const other of [
      '',
      '01arz3ndektsv4rrffq69g5fav',
      '81ARZ3NDEKTSV4RRFFQ69G5FAV',
      '01ARZ3NDEKTSV4RRFFQ69G5FAU',
      '01ARZ3NDEKTSV4RRFFQ69G5FA',
    ])
      expect(ulidBytes(other), other).toBeUndefined();
  });
});

describe('words', () => {
  it('are runs of letters, marks, digits and underscores in any script', () => {
    expect(indexWords('Hello, WORLD! of_the year-2024 to go')).toEqual([
      'hello',
      'world',
      'of_the',
      'year',
      '2024',
    ]);
    expect(indexWords('Привет Ελλάδα مرحبا हिन्दी')).toEqual(['привет', 'ελλάδα', 'مرحبا', 'हिन्दी']);
    expect(indexWords('cafe\u0301 CAFÉ')).toEqual(['café']);
  });

  it('are found in a text only as whole words, in plain text and beyond', () => {
    const texts = [
      'worded reword',
      'a sword, WORD!',
      'word',
      '_word word_ 2word word2',
      'reword word',
      'größe word',
      '',
    ];
    const found = texts.map((text) => hasWords(text, ['word']));
    expect(found).toEqual([false, true, true, false, true, true, false]);
    expect(found).toEqual(texts.map((text) => indexWords(text).includes('word')));
    expect(hasWords('one two three', ['three', 'one'])).toBe(true);
    expect(hasWords('one two three', ['three', 'four'])).toBe(false);
    expect(hasWords('plain text', ['größe'])).toBe(false);
  });

  it('of Chinese, Japanese and Korean are pairs of neighbours', () => {
    expect(indexWords('日本語')).toEqual(['日本', '本語']);
    expect(indexWords('カラー표준어')).toEqual(['カラ', 'ラー', 'ー표', '표준', '준어']);
    expect(indexWords('GPT4日本x abc語')).toEqual(['gpt4', '日本', 'abc']);
    expect(indexWords('日')).toEqual([]);
  });

  it('shorter than three or longer than a hundred characters are left out', () => {
    expect(indexWords(`ab abc ${'x'.repeat(100)} ${'y'.repeat(101)}`)).toEqual(['abc', 'x'.repeat(100)]);
    expect(indexWords('𝒜𝒷')).toEqual([]);
  });

  it('of a query are those of its first five terms; a run of CJK characters is one term', () => {
    expect(queryWords('one1 two2 three four five six7')).toEqual(['one1', 'two2', 'three', 'four', 'five']);
    expect(queryWords('日本語日本語日本語 one two six for ten')).toEqual([
      '日本',
      '本語',
      '語日',
      'one',
      'two',
      'six',
      'for',
    ]);
    expect(queryWords('a b! --')).toEqual([]);
  });
});

describe('names', () => {
  it('of agents are trimmed, stripped of control characters and shortened between characters', () => {
    expect(agentNameOf('  Ann\u0000\u202e a\n ')).toBe('Ann a');
    expect(agentNameOf(` ${'😀'.repeat(101)}`)).toBe('😀'.repeat(100));
    expect(agentNameOf('\ud800')).toBe('\ufffd');
    expect(agentNameOf(' \n ')).toBeNull();
  });

  it('of rooms are ASCII words of at most fifty characters', () => {
    expect(roomNameOf('a-B_9')).toBe('a-B_9');
    for (const bad of ['', 'a b', 'é', 'x'.repeat(51), 'a\n']) expect(roomNameOf(bad), bad).toBeUndefined();
  });

  it('of mailboxes follow RFC 5322', () => {
    expect(isEmail("o'neil+x@mail.example.org", 254)).toBe(true);
    for (const bad of [
      'a@b',
      '@b.c',
      'a@b..c',
      'a b@c.d',
      '.a@b.c',
      'a@-b.c',
      'a@b.c\n',
      `${'a'.repeat(250)}@b.cd`,
    ])
      expect(isEmail(bad, 254), bad).toBe(false);
  });
});

it.each([
  [0, 'just now'],
  [59_999, 'just now'],
  [60_000, '1 minute ago'],
  [59 * 60_000, '59 minutes ago'],
  [3_600_000, '1 hour ago'],
  [23 * 3_600_000, '23 hours ago'],
  [24 * 3_600_000, '1 day ago'],
  [-5_000, 'just now'],
])('what was %i ms ago was %s', (agoMs, words) => {
  expect(agoInWords(1e12, 1e12 + agoMs)).toBe(words);
});

describe('a sliding window', () => {
  it('allows its number of requests in any period of its length, and refusals do not count', () => {
    const windows = new SlidingWindows();
    const at = (nowMs: number) => windows.take('k', 2, 1_000, nowMs);
    expect(at(0)).toEqual({ allowed: true, limit: 2, remaining: 1, resetAtMs: 1_000 });
    expect(at(900).allowed).toBe(true);
    expect(at(950)).toEqual({ allowed: false, limit: 2, remaining: 0, resetAtMs: 1_000 });
    expect(at(1_000).allowed).toBe(true);
    expect(at(1_100)).toEqual({ allowed: false, limit: 2, remaining: 0, resetAtMs: 1_900 });
    expect(at(1_900).allowed).toBe(true);
  });
});

describe('the address of a caller', () => {
  const proxies = new AddressRanges(['10.0.0.0/8', '::1'], 'test');

  it('is the peer unless the peer is a proxy', () => {
    expect(callerAddress('::ffff:203.0.113.9', '198.51.100.1', proxies)).toBe('203.0.113.9');
    expect(callerAddress('10.1.1.1', undefined, proxies)).toBe('10.1.1.1');
  });

  it('is the last hop that is not a proxy: the caller wrote everything left of it', () => {
    expect(callerAddress('10.1.1.1', '1.2.3.4, 198.51.100.1, 10.2.2.2', proxies)).toBe('198.51.100.1');
    expect(callerAddress('::1', 'nonsense, 10.2.2.2', proxies)).toBe('10.2.2.2');
    expect(callerAddress('::1', 'nonsense', proxies)).toBe('::1');
  });

  it('has one spelling', () => {
    for (const spelling of ['2001:db8::1', '2001:DB8:0:0:0:0:0:1', '2001:0db8::0001', '2001:db8::0:1%eth0'])
      expect(plainAddress(spelling), spelling).toBe('2001:db8::1');
    for (const spelling of [
      '203.0.113.9',
      '::ffff:203.0.113.9',
      '::FFFF:cb00:7109',
      '0:0:0:0:0:ffff:203.0.113.9',
    ])
      expect(plainAddress(spelling), spelling).toBe('203.0.113.9');
    expect(['', 'nonsense', '1.2.3', '::g'].map(plainAddress)).toEqual(['', 'nonsense', '1.2.3', '::g']);
  });

  it('counts as its whole network in IPv6', () => {
    for (const address of [
      '2001:db8:1:2::',
      '2001:db8:1:2::9',
      '2001:db8:1:2:ffff:ffff:ffff:ffff',
      '2001:db8:1:2:0:1::',
    ])
      expect(countedAddress(address), address).toBe('2001:db8:1:2::/64');
    expect(
      ['2001:db8:1:3::9', '2001:db8::1', '1::4:5:6:7:8', '1:2:3:4:5:6:7:8', '::2'].map(countedAddress),
    ).toEqual(['2001:db8:1:3::/64', '2001:db8::/64', '1:0:0:4::/64', '1:2:3:4::/64', '::/64']);
    // Link-local addresses are one network; a listed network is its own name.
    for (const address of ['203.0.113.9', '::1', 'fe80::1', 'nonsense', '2001:db8:1:2::/64'])
      expect(countedAddress(address), address).toBe(address);
  });

  it('refuses an invalid range', () => {
    for (const bad of ['10.0.0.0/33', '10.0.0/8', '1.2.3.4/', 'x', '::/129'])
      expect(() => new AddressRanges([bad], 'test'), bad).toThrow('test');
  });
});
